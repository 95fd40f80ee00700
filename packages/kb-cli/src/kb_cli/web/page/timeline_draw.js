// Draws the timeline. What it draws is given; nothing is asked for here.

import {duration, percent, tickText, ticks} from "/format.js";
import {style} from "/palette.js";
import {ROW} from "/timeline_rows.js";

export const AXIS = 22;
export const TOP = AXIS + ROW + 4;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
const LABEL = 34; // a slice narrower than this has no label

export class Drawing {
    constructor(canvas) {
        this.canvas = canvas;
        this.context = canvas.getContext("2d");
        this.wide = new Map();
    }

    size(width, height, names) {
        const ratio = Math.min(devicePixelRatio || 1, 2);
        [this.width, this.height, this.names, this.ratio] = [width, height, names, ratio];
        const wanted = [Math.round(width * ratio), Math.round(height * ratio)];
        if (this.canvas.width !== wanted[0] || this.canvas.height !== wanted[1]) [this.canvas.width, this.canvas.height] = wanted;
    }

    x(t, view) {
        return this.names + (t - view.t0) / (view.t1 - view.t0) * (this.width - this.names);
    }

    t(x, view) {
        return view.t0 + (x - this.names) / (this.width - this.names) * (view.t1 - view.t0);
    }

    draw({view, rows, scroll, windows, selected, marks, hover, path, arrow}) {
        const {context: to} = this;
        to.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        to.clearRect(0, 0, this.width, this.height);
        to.font = FONT;
        to.textBaseline = "middle";
        this.ink = {ink: style("--ink"), soft: style("--soft"), rule: style("--rule"), panel: style("--panel"),
            page: style("--page"), mark: style("--mark"), over: style("--over"), path: style("--path")};
        const visible = rows ? rows.between(scroll, scroll + this.height - TOP) : [];
        this.axis(view);
        to.save();
        to.beginPath();
        to.rect(0, TOP, this.width, this.height - TOP);
        to.clip();
        for (const row of visible) this.row(row, row.y - scroll + TOP, view, windows, selected);
        if (arrow) this.arrow(arrow.t.map((t) => this.x(t, view)), arrow.heights.map((y) => y - scroll + TOP));
        to.restore();
        this.lane({table: "path", lane: 0}, AXIS, ROW, view, windows, selected);
        this.name("critical path", 8, AXIS + ROW / 2, this.ink.ink);
        to.fillStyle = this.ink.rule;
        to.fillRect(0, TOP - 2, this.width, 1);
        to.fillRect(this.names - 1, 0, 1, this.height);
        this.marks(marks, view);
        if (hover) this.hover(hover, view);
        if (path) this.name(path, this.names + 8, AXIS + ROW / 2, this.ink.soft);
    }

    row(row, y, view, windows, selected) {
        const {context: to} = this;
        if (!row.lane) {
            to.fillStyle = this.ink.panel;
            to.fillRect(0, y, row.lanes.length ? this.names - 1 : this.width, row.height);
            this.name(`${row.group.open ? "▾" : "▸"} ${row.group.name}`, 6, y + row.height / 2, this.ink.ink);
        } else {
            const title = this.names < 150 ? row.lane.title.replace(/^\w+: /, "") : row.lane.title;
            this.name(title, row.group.lanes.length > 1 || row.group.name !== row.lane.title ? 20 : 8, y + row.height / 2, this.ink.soft);
        }
        const high = (row.height - (row.lane ? 3 : 4)) / Math.max(row.lanes.length, 1);
        row.lanes.forEach((lane, at) => {
            const top = y + 1 + at * high;
            this.lane(lane, top, Math.max(row.lanes.length > 1 && high > 2.5 ? high - 0.5 : high, 0.5), view, windows, selected);
        });
        to.fillStyle = this.ink.rule;
        if (!row.lane || row.group.lanes.at(-1) === row.lane) to.fillRect(0, y + row.height - 0.5, this.width, 0.5);
    }

    name(text, x, y, ink) {
        const {context: to} = this;
        to.save();
        to.beginPath();
        to.rect(0, 0, x > this.names ? this.width : this.names - 6, this.height);
        to.clip();
        to.fillStyle = ink;
        to.fillText(text, x, y);
        to.restore();
    }

    lane({table, lane}, y, height, view, windows, selected) {
        const found = windows.get(table, lane);
        if (!found) return;
        const {context: to} = this;
        to.save();
        to.beginPath();
        to.rect(this.names, y, this.width - this.names, height);
        to.clip();
        if (found.cover) this.covered(found, y, height, view);
        else this.slices(found, y, height, view, windows.kinds(table));
        to.restore();
        if (selected && selected.table === table && selected.lane === lane) this.frame(selected, y, height, view);
    }

    covered(found, y, height, view) {
        if (!found.sheet) return;
        const {context: to} = this;
        to.imageSmoothingEnabled = false;
        const [x0, x1] = [this.x(found.from, view), this.x(found.until, view)];
        to.drawImage(found.sheet, 0, found.line, found.pixels, 1, x0, y, x1 - x0, height);
    }

    slices(found, y, height, view, {palette, texts}) {
        const {context: to} = this;
        for (let at = 0; at < found.slices; at++) {
            if (found.end[at] < view.t0 || found.start[at] > view.t1) continue;
            const left = Math.max(this.x(found.start[at], view), this.names - 1);
            const right = Math.min(this.x(found.end[at], view), this.width + 1);
            const width = Math.max(right - left, 1);
            to.fillStyle = palette[found.kind[at]];
            to.fillRect(left, y, width > 3 ? width - 0.7 : width, height);
            const label = texts[found.kind[at]];
            if (height >= 12 && width > LABEL && label !== undefined) this.label(label, left, y, width, height);
        }
    }

    label(text, left, y, width, height) {
        const {context: to} = this;
        const shown = this.fitting(text, width - 8);
        if (!shown) return;
        to.fillStyle = "#ffffff";
        to.strokeStyle = "rgba(0, 0, 0, 0.55)";
        to.lineWidth = 2;
        to.strokeText(shown, left + 4, y + height / 2 + 0.5);
        to.fillText(shown, left + 4, y + height / 2 + 0.5);
    }

    // As much of a text as has room, nothing where that would be a letter or two.
    fitting(text, room) {
        const wide = this.wide.get(text) ?? this.context.measureText(text).width;
        this.wide.set(text, wide);
        if (wide <= room) return text;
        const letters = Math.floor(text.length * (room - 14) / wide);
        return letters < 3 ? "" : `${text.slice(0, letters)}…`;
    }

    frame({t0, t1}, y, height, view) {
        const {context: to} = this;
        const [left, right] = [Math.max(this.x(t0, view), this.names), Math.min(this.x(t1, view), this.width)];
        if (right < this.names || left > this.width) return;
        to.strokeStyle = this.ink.ink;
        to.lineWidth = 2;
        to.strokeRect(left - 1, y - 1, Math.max(right - left, 1) + 2, height + 2);
    }

    // An arrow between two points, as far as it is right of the names.
    arrow([x0, x1], [y0, y1]) {
        const {context: to} = this;
        const turn = Math.atan2(y1 - y0, x1 - x0);
        const wing = (by) => [x1 - 9 * Math.cos(turn + by), y1 - 9 * Math.sin(turn + by)];
        to.save();
        to.beginPath();
        to.rect(this.names, TOP, this.width - this.names, this.height - TOP);
        to.clip();
        for (const [ink, width] of [[this.ink.page, 4], [this.ink.ink, 1.75]]) {
            to.strokeStyle = ink;
            to.lineWidth = width;
            to.beginPath();
            to.moveTo(x0, y0);
            to.lineTo(x1, y1);
            to.moveTo(...wing(0.45));
            to.lineTo(x1, y1);
            to.lineTo(...wing(-0.45));
            to.stroke();
        }
        to.restore();
    }

    axis(view) {
        const {context: to} = this;
        to.fillStyle = this.ink.page;
        to.fillRect(0, 0, this.width, TOP - 2);
        const {step, found} = ticks(view.t0, view.t1, (this.width - this.names) / 110);
        for (const t of found) {
            const x = this.x(t, view);
            to.fillStyle = this.ink.rule;
            to.fillRect(x, 0, 1, this.height);
            to.fillStyle = this.ink.soft;
            if (x < this.width - 30) to.fillText(tickText(t, step, Math.max(view.t1 - view.t0, step)), x + 4, AXIS / 2);
        }
        to.fillStyle = this.ink.page;
        to.fillRect(0, 0, this.names - 1, TOP - 2);
        this.name(`${duration(view.t1 - view.t0)} shown`, 8, AXIS / 2, this.ink.soft);
    }

    marks(marks, view) {
        const {context: to} = this;
        const xs = marks.map((t) => this.x(t, view));
        if (xs.length === 2) {
            to.fillStyle = this.ink.mark;
            to.globalAlpha = 0.08;
            const [left, right] = [Math.max(Math.min(...xs), this.names), Math.min(Math.max(...xs), this.width)];
            if (right > left) to.fillRect(left, AXIS, right - left, this.height);
            to.globalAlpha = 1;
        }
        xs.forEach((x, at) => {
            if (x < this.names || x > this.width) return;
            to.fillStyle = this.ink.mark;
            to.fillRect(x - 0.75, 0, 1.5, this.height);
            to.fillRect(x, 0, 14, 14);
            to.fillStyle = this.ink.page;
            to.fillText("AB"[at], x + 3, 7.5);
        });
    }

    hover({x, y, text}, view) {
        const {context: to} = this;
        if (x < this.names) return;
        to.fillStyle = this.ink.soft;
        to.globalAlpha = 0.5;
        to.fillRect(x, 0, 1, this.height);
        to.globalAlpha = 1;
        if (!text) return;
        const wide = to.measureText(text).width + 12;
        const left = Math.min(x + 12, this.width - wide - 4);
        const top = Math.min(y + 14, this.height - 24);
        to.fillStyle = this.ink.ink;
        to.fillRect(left, top, wide, 20);
        to.fillStyle = this.ink.page;
        to.fillText(text, left + 6, top + 10.5);
    }
}

// What is under the pointer in words: from what is drawn, without asking.
export function under(found, t, view, kinds) {
    if (!found) return "";
    if (found.cover) {
        const pixel = Math.floor((t - found.from) / (found.until - found.from) * found.pixels);
        const cover = found.cover[pixel];
        if (!cover) return "idle";
        const kind = kinds.texts[found.kinds === 1 ? found.kind[0] : found.kind[pixel]];
        return `${kind}, at work ${percent(cover / 255)} of ${duration((found.until - found.from) / found.pixels)}`;
    }
    const at = sliceAt(found, t, view);
    return at < 0 ? "idle" : `${kinds.texts[found.kind[at]]}, ${duration(found.end[at] - found.start[at])}`;
}

export function sliceAt(found, t) {
    let low = 0;
    let high = found.slices;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (found.start[middle] <= t) low = middle + 1;
        else high = middle;
    }
    const at = low - 1;
    return at >= 0 && t < Math.max(found.end[at], found.start[at] + 1) ? at : -1;
}
