// Draws the timeline. What it draws is given; nothing is asked for here.

import {duration, percent, scale, ticks} from "/format.js";
import {style} from "/palette.js";
import {bars, frame} from "/timeline_bars.js";
import {MAP, drawMap} from "/timeline_minimap.js";
import {ROW} from "/timeline_tree.js";

const AXIS = 22;
const PATH = MAP + AXIS;
const LETTER = 14; // of a mark
const INDENT = 12;
const PIN = 18; // pixels at the end of a name
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

export class Drawing {
    constructor(canvas) {
        this.canvas = canvas;
        this.context = canvas.getContext("2d");
        this.wide = new Map();
        this.pinned = [];
        this.top = PATH + ROW + 4;
    }

    // `pinned` are the rows that stay above the others.
    size(width, height, names, pinned) {
        const ratio = Math.min(devicePixelRatio || 1, 2);
        Object.assign(this, {width, height, names, ratio});
        this.top = PATH + ROW + 4;
        this.pinned = pinned.map((row) => {
            const placed = {...row, at: this.top - 2};
            this.top += row.height;
            return placed;
        });
        const wanted = [Math.round(width * ratio), Math.round(height * ratio)];
        if (this.canvas.width !== wanted[0] || this.canvas.height !== wanted[1]) [this.canvas.width, this.canvas.height] = wanted;
    }

    x(t, view) {
        return this.names + (t - view.t0) / (view.t1 - view.t0) * (this.width - this.names);
    }

    t(x, view) {
        return view.t0 + (x - this.names) / (this.width - this.names) * (view.t1 - view.t0);
    }

    // What is at a height: "map", "axis", "path", or a row with `at`, its place on the canvas.
    at(y, tree, scroll) {
        if (y < MAP) return "map";
        if (y < PATH) return "axis";
        if (y < PATH + ROW) return "path";
        if (y < this.top) return this.pinned.find((row) => y >= row.at && y < row.at + row.height);
        const [row] = tree.between(y - this.top + scroll, y - this.top + scroll + 1);
        return row && {...row, at: row.y - scroll + this.top};
    }

    draw(shown) {
        const {view, tree, scroll, windows, selected, marks, hover, path, arrows, cursor, pins} = shown;
        const {context: to} = this;
        to.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        to.clearRect(0, 0, this.width, this.height);
        to.font = FONT;
        to.textBaseline = "middle";
        this.ink = {ink: style("--ink"), soft: style("--soft"), rule: style("--rule"), panel: style("--panel"),
            page: style("--page"), mark: style("--mark"), over: style("--over"), path: style("--path")};
        this.axis(view, marks.map((t) => this.x(t, view)));
        const some = {view, windows, selected, cursor, pins, hover: hover?.row};
        this.clipped(this.top, () => {
            for (const row of tree.between(scroll, scroll + this.height - this.top)) this.row(row, row.y - scroll + this.top, some);
            const y = (end) => end.y - scroll + this.top;
            for (const [a, b, isThin] of arrows) this.arrow([this.x(a.t, view), this.x(b.t, view)], [y(a), y(b)], isThin);
        });
        for (const row of this.pinned) this.row(row, row.at, some);
        this.lane({table: "path", lane: 0}, PATH, ROW, some);
        this.name("critical path", 8, PATH + ROW / 2, this.ink.ink);
        if (path) this.name(path, this.names + 8, PATH + ROW / 2, this.ink.soft);
        drawMap(this, shown);
        to.fillStyle = this.ink.rule;
        to.fillRect(0, PATH + ROW + 1, this.width, 1);
        if (this.pinned.length) to.fillRect(0, this.top - 3, this.width, 2);
        to.fillRect(this.names - 1, 0, 1, this.height);
        this.marks(marks, view);
        if (hover) this.hover(hover);
    }

    clipped(top, draw) {
        const {context: to} = this;
        to.save();
        to.beginPath();
        to.rect(0, top, this.width, this.height - top);
        to.clip();
        draw();
        to.restore();
    }

    row(row, y, some) {
        const {context: to} = this;
        const {node, lanes, height} = row;
        const isAt = some.cursor === node.key;
        if (node.children) {
            to.fillStyle = this.ink.panel;
            to.fillRect(0, y, this.names - 1, height);
        }
        if (isAt) {
            to.fillStyle = this.ink.over;
            to.fillRect(0, y, this.names - 1, height);
            to.fillStyle = this.ink.path;
            to.fillRect(0, y, 3, height);
        }
        this.title(node, y + Math.min(height, 22) / 2, some, isAt);
        const high = (height - 3) / Math.max(lanes.length, 1);
        const [above, less] = node.open && lanes.length ? [5, 8] : [0, 0]; // the heat of what is open is thin
        lanes.forEach((lane, at) => this.lane(lane, y + 1 + at * high + above, Math.max(lanes.length > 1 ? high - 0.7 : high - less, 0.5), some));
        if (node.waits) this.name(node.waits, this.names + 8, y + height / 2, this.ink.soft);
        to.fillStyle = this.ink.rule;
        if (node.children || node.parent?.children.at(-1) === node) to.fillRect(0, y + height - 0.5, this.width, 0.5);
    }

    title(node, y, {pins, hover}, isAt) {
        const x = 8 + node.depth * INDENT;
        const isPinned = pins.includes(node.key);
        const pin = isPinned || isAt || hover === node.key;
        const share = node.share === undefined || this.names < 170 ? "" : shareText(node.share);
        const end = this.names - 8 - (pin ? PIN : 0);
        const room = end - x - (share ? this.measured(share) + 8 : 0);
        const arrow = node.children ? (node.open ? "▾ " : "▸ ") : "";
        const text = [node.name, node.short].find((each) => each && this.measured(arrow + each) <= room) ?? this.fitting(node.short ?? node.name, room - 12);
        this.name(arrow + text, x, y, node.children ? this.ink.ink : this.ink.soft);
        if (share) this.name(share, end - this.measured(share), y, this.ink.soft);
        if (pin) this.pin(y, isPinned);
    }

    // A pin at the end of a name: full where the row is pinned.
    pin(y, isPinned) {
        const {context: to, names} = this;
        to.beginPath();
        to.arc(names - 13, y - 2.5, 3.5, 0, 7);
        to.moveTo(names - 13, y + 1);
        to.lineTo(names - 13, y + 6);
        [to.fillStyle, to.strokeStyle, to.lineWidth] = [isPinned ? this.ink.path : this.ink.page, isPinned ? this.ink.path : this.ink.soft, 1.5];
        to.fill();
        to.stroke();
    }

    isPin(x) {
        return x < this.names && x > this.names - 8 - PIN;
    }

    name(text, x, y, ink) {
        const {context: to} = this;
        to.save();
        to.beginPath();
        to.rect(0, 0, x > this.names ? this.width : this.names - 4, this.height);
        to.clip();
        to.fillStyle = ink;
        to.fillText(text, x, y);
        to.restore();
    }

    lane({table, lane}, y, height, {view, windows, selected}) {
        const found = windows.get(table, lane);
        if (!found) return;
        bars(this, found, y, height, view, windows.kinds(table));
        if (selected && selected.table === table && selected.lane === lane) frame(this, selected, y, height, view);
    }

    measured(text) {
        const found = this.wide.get(text) ?? this.context.measureText(text).width;
        if (this.wide.size > 5000) this.wide.clear();
        this.wide.set(text, found);
        return found;
    }

    // As much of a text as has room: all, its first word, the last part of an id, or its begin; nothing where that would be a letter or two.
    fitting(text, room) {
        const word = text.split(" ")[0].replace(/:$/, "");
        const part = word.split(".").at(-1);
        const whole = [text, word, part].find((each) => this.measured(each) <= room);
        if (whole !== undefined) return whole;
        const letters = Math.floor(part.length * (room - 12) / this.measured(part));
        return letters < 3 ? "" : `${part.slice(0, letters)}…`;
    }

    // An arrow between two points, as far as it is right of the names.
    arrow([x0, x1], [y0, y1], isThin) {
        const {context: to} = this;
        const turn = Math.atan2(y1 - y0, x1 - x0);
        const long = isThin ? 5 : 9;
        const wing = (by) => [x1 - long * Math.cos(turn + by), y1 - long * Math.sin(turn + by)];
        to.save();
        to.beginPath();
        to.rect(this.names, this.top, this.width - this.names, this.height - this.top);
        to.clip();
        for (const [ink, width] of isThin ? [[this.ink.ink, 0.8]] : [[this.ink.page, 4], [this.ink.ink, 1.75]]) {
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

    // `taken` are the places of the letters of marks.
    axis(view, taken) {
        const {context: to} = this;
        const {step, found} = ticks(view.t0, view.t1, (this.width - this.names) / 110);
        const text = scale(view.t1, step);
        for (const t of found) {
            const x = this.x(t, view);
            to.fillStyle = this.ink.rule;
            to.fillRect(x, MAP, 1, this.height);
            to.fillStyle = this.ink.soft;
            const end = x + 4 + this.measured(text(t));
            if (end < this.width && !taken.some((each) => each + LETTER > x && each < end)) to.fillText(text(t), x + 4, MAP + AXIS / 2);
        }
        to.fillStyle = this.ink.page;
        to.fillRect(0, MAP, this.names - 1, this.top - MAP - 2);
        this.name(`${duration(view.t1 - view.t0)} shown`, 8, MAP + AXIS / 2, this.ink.soft);
    }

    marks(marks, view) {
        const {context: to} = this;
        const xs = marks.map((t) => this.x(t, view));
        if (xs.length === 2) {
            to.fillStyle = this.ink.mark;
            to.globalAlpha = 0.08;
            const [left, right] = [Math.max(Math.min(...xs), this.names), Math.min(Math.max(...xs), this.width)];
            if (right > left) to.fillRect(left, PATH, right - left, this.height);
            to.globalAlpha = 1;
        }
        xs.forEach((x, at) => {
            if (x < this.names || x > this.width) return;
            to.fillStyle = this.ink.mark;
            to.fillRect(x - 0.75, MAP, 1.5, this.height);
            to.fillRect(x, MAP, LETTER, LETTER);
            to.fillStyle = this.ink.page;
            to.fillText("AB"[at], x + 3, MAP + 7.5);
        });
    }

    hover({x, y, text}) {
        const {context: to} = this;
        if (x < this.names && !text) return;
        if (x >= this.names) {
            to.fillStyle = this.ink.soft;
            to.globalAlpha = 0.5;
            to.fillRect(x, MAP, 1, this.height);
            to.globalAlpha = 1;
        }
        if (!text) return;
        const wide = this.context.measureText(text).width + 12;
        const left = Math.max(Math.min(x + 12, this.width - wide - 4), 0);
        const top = Math.min(y + 14, this.height - 24);
        to.fillStyle = this.ink.ink;
        to.fillRect(left, top, wide, 20);
        to.fillStyle = this.ink.page;
        to.fillText(text, left + 6, top + 10.5);
    }
}

// A share in few digits, of which none is 0 unless all are.
function shareText(share) {
    return share < 0.01 ? percent(share) : `${Math.round(share * 100)} %`;
}
