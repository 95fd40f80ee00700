// The timeline: what happened when, on every block.

import {Refused, json, live} from "/api.js";
import {h, note} from "/dom.js";
import {count, duration, exact} from "/format.js";
import {onChange} from "/palette.js";
import {AXIS, Drawing, TOP, under} from "/timeline_draw.js";
import {Windows} from "/timeline_data.js";
import {ROW, Rows} from "/timeline_rows.js";
import {pressed} from "/timeline_keys.js";
import {listen} from "/timeline_pointer.js";
import {Between} from "/timeline_sums.js";
import {hint, legend, search, selection, tools} from "/timeline_panel.js";

const LEAST_PS = 10; // the shortest window
const AGAIN_MS = 3000; // between two looks at the log of a run that goes on
const FURTHER = ["waits", "memories", "launches", "path"]; // asked for when the first lanes are drawn, because they take longer
const TABLES = ["ops", "waits", "memories", "launches"];

export async function show(place, page) {
    const found = new Timeline(place, page);
    await found.open();
    return () => found.close();
}

class Timeline {
    constructor(place, page) {
        this.page = page;
        this.run = page.state.run;
        this.windows = new Windows((error) => {
            if (error?.status === 409) this.reopen();
            else this.further();
            if (error && error.status !== 409) this.trouble.replaceChildren(note(error.message));
            else if (!this.windows.refused.size) this.trouble.replaceChildren();
            this.soon();
        });
        this.canvas = h("canvas", {"aria-hidden": "true"});
        this.drawing = new Drawing(this.canvas);
        this.spacer = h("div");
        this.lanes = h("div", {class: "lanes", tabindex: "0", role: "application",
            "aria-label": "lanes over time; the text above says what they show, and Keys which keys work"}, this.canvas, this.spacer);
        this.status = h("p", {class: "soft status", role: "status"});
        this.notes = h("div");
        this.trouble = h("div", {role: "status"});
        this.kinds = h("p", {class: "key legend"});
        this.panel = h("div", null, hint());
        this.between = new Between(this);
        this.marks = ["a", "b"].map((name) => page.state[name]).filter((t) => t !== undefined).sort((a, b) => a - b);
        this.colour = page.state.colour ?? "stage";
        place.append(tools(this), this.status, this.notes, this.trouble,
            h("div", {class: "stage"}, this.lanes, h("aside", {"aria-live": "polite"}, this.between.place, this.panel)), this.kinds);
        this.leaves = [onChange(() => {
            this.windows.forget();
            this.soon();
        })];
    }

    async open() {
        const first = await this.list("ops");
        this.bounds = {t0: first.from_ps, t1: first.until_ps};
        this.stamp = first.stamp;
        this.tables = new Map([["ops", first]]);
        this.rows = new Rows([["ops", first.groups]]);
        const {t0, t1} = this.page.state;
        this.view = this.fitting(t1 === undefined ? this.bounds : {t0, t1});
        this.notes.replaceChildren(...first.notes.map(note));
        this.listen();
        const {op, find} = this.page.state;
        if (op !== undefined) this.choose({op}, true);
        else if (find) search(this, find);
        this.soon();
        if (!first.groups.length) this.further(); // no window will come
        this.follow();
    }

    // Asks for the other tables, once.
    further() {
        if (this.isFurther || this.isClosed) return;
        this.isFurther = true;
        for (const table of FURTHER) this.more(table);
    }

    // Reads a run that goes on again and again, and goes over to its folder when it is complete.
    follow() {
        let name;
        let read = Date.now();
        const deaf = live((told, connected) => {
            if (!connected) return;
            const {runs} = told;
            const mine = runs.find((each) => each.id === this.run);
            if (mine?.state === "running") {
                name = mine.name;
                if (Date.now() - read < AGAIN_MS) return;
                read = Date.now();
                this.reopen();
            } else if (name) {
                const done = runs.find((each) => each.name === name && each.state !== "running");
                deaf();
                if (done) this.page.go({run: done.id, op: null});
                else this.notes.replaceChildren(note("The run ended and left no result. Its terminal says why."));
            } else queueMicrotask(() => deaf());
        });
        this.leaves.push(deaf);
    }

    async reopen() {
        if (this.reopening) return;
        this.reopening = true;
        try {
            await this.renew();
        } catch (error) {
            this.trouble.replaceChildren(note(error.message));
        } finally {
            this.reopening = false;
        }
    }

    async renew() {
        const before = this.rows;
        const first = await json("lanes", {run: this.run, table: "ops"});
        if (this.isClosed) return;
        const whole = this.view.t0 <= this.bounds.t0 && this.view.t1 >= this.bounds.t1;
        this.windows.forget();
        this.trouble.replaceChildren();
        this.bounds = {t0: first.from_ps, t1: first.until_ps};
        this.stamp = first.stamp;
        this.tables = new Map([["ops", first]]);
        this.rows = new Rows([["ops", first.groups]]).like(before);
        if (whole) this.view = {...this.bounds};
        this.notes.replaceChildren(...first.notes.map(note));
        this.isFurther = false;
        this.further();
        this.soon();
        await this.again(this.selected);
    }

    // Finds what was selected in the lanes of now, whose numbers may be others.
    async again(selected) {
        if (!selected) return;
        let found = {};
        if (selected.record) found = await json("slice", {run: this.run, stamp: this.stamp, op: selected.record.op});
        if (this.selected === selected) this.selected = found.name === undefined ? null : {...found, t0: found.t0_ps, t1: found.t1_ps};
        this.soon();
    }

    list(table) {
        return json("lanes", {run: this.run, table, stamp: this.stamp});
    }

    async more(table) {
        const there = this.tables.get("ops").tables.includes(table);
        try {
            this.tables.set(table, there ? await this.list(table) : {groups: []}); // the notes say what the log lacks
        } catch (error) {
            if (!(error instanceof Refused)) throw error;
            this.tables.set(table, {groups: []});
            this.notes.append(note(error.message));
        }
        if (this.isClosed) return;
        if (table !== "path") {
            const there = TABLES.filter((each) => this.tables.get(each)?.groups.length);
            this.rows = new Rows(there.map((each) => [each, this.tables.get(each).groups])).like(this.rows);
        }
        this.soon();
    }

    close() {
        this.windows.forget();
        this.between.close();
        this.isClosed = true;
        for (const each of this.leaves) each();
    }

    // The window that is nearest to `view`, within the run.
    fitting({t0, t1}) {
        const all = this.bounds.t1 - this.bounds.t0;
        const width = Math.min(Math.max(t1 - t0, Math.min(LEAST_PS, all)), all);
        const middle = (t0 + t1) / 2;
        const from = Math.min(Math.max(middle - width / 2, this.bounds.t0), this.bounds.t1 - width);
        return {t0: from, t1: from + width};
    }

    look(view) {
        this.view = this.fitting(view);
        this.soon();
    }

    zoom(factor, at) {
        const t = at ?? (this.view.t0 + this.view.t1) / 2;
        const {t0, t1} = this.view;
        const width = Math.min(Math.max((t1 - t0) * factor, LEAST_PS), this.bounds.t1 - this.bounds.t0);
        const from = t - (t - t0) / (t1 - t0) * width;
        this.look({t0: from, t1: from + width});
    }

    pan(share) {
        const by = (this.view.t1 - this.view.t0) * share;
        this.look({t0: this.view.t0 + by, t1: this.view.t1 + by});
    }

    soon() {
        if (this.frame || this.isClosed) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            if (!this.isClosed) this.now();
        });
    }

    now() {
        const [width, height] = [this.lanes.clientWidth, this.lanes.clientHeight];
        if (!width || !this.rows) return;
        this.drawing.size(width, height, Math.min(Math.max(width * 0.2, 112), 210));
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.spacer.style.height = `${Math.max(this.rows.height + TOP - height, 0)}px`;
        const scroll = this.lanes.scrollTop;
        this.ask(scroll, height, width);
        this.drawing.draw({view: this.view, rows: this.rows, scroll, windows: this.windows, selected: this.selected,
            marks: this.marks, hover: this.hover, path: this.pathText(), arrow: this.arrow()});
        this.tell(scroll, height);
        this.between.show();
        clearTimeout(this.keeping);
        this.keeping = setTimeout(() => this.keep(), 300);
    }

    // The arrow of the message that is selected: its ends in time, and their heights among the rows.
    arrow() {
        const {sent, taken} = this.selected?.message ?? {};
        const heights = [sent, taken].map((end) => end && this.rows.middle(end.table, end.lane));
        return heights.includes(undefined) || heights.includes(null) ? null : {t: [sent.t_ps, taken.t_ps], heights};
    }

    pathText() {
        const found = this.tables.get("path");
        if (!found) return "being worked out ...";
        return found.groups.length ? "" : "not told by the log";
    }

    ask(scroll, height, width) {
        const visible = this.rows.between(scroll, scroll + height - TOP);
        const pixels = Math.max(Math.round((width - this.drawing.names) * this.drawing.ratio), 1);
        const folded = visible.some((row) => !row.lane && row.lanes.length);
        const view = {...this.view, pixels: folded ? Math.round(pixels / 2) : pixels};
        const fields = {run: this.run, stamp: this.stamp, colour: this.colour, line: this.page.state.line};
        for (const table of TABLES) {
            const lanes = visible.flatMap((row) => row.lanes).filter((each) => each.table === table).map((each) => each.lane);
            this.windows.need(table, lanes, view, fields, this.bounds);
        }
        if (this.tables.get("path")?.groups.length) this.windows.need("path", [0], {...this.view, pixels}, fields, this.bounds);
    }

    keep() {
        if (this.isClosed || this.page.state.view !== "timeline") return;
        const whole = this.view.t0 <= this.bounds.t0 && this.view.t1 >= this.bounds.t1;
        const [a, b] = this.marks;
        this.page.keep({
            t0: whole ? null : Math.floor(this.view.t0), t1: whole ? null : Math.ceil(this.view.t1), a, b,
            colour: this.colour === "stage" ? null : this.colour, op: this.selected?.record?.op,
        });
    }

    tell(scroll, height) {
        const visible = this.rows.between(scroll, scroll + height - TOP).filter((row) => row.lanes.length);
        const lanes = this.rows.rows.filter((row) => row.lanes.length).length;
        const [a, b] = this.marks;
        this.status.replaceChildren(
            `${exact(this.view.t0)} to ${exact(this.view.t1)}, ${duration(this.view.t1 - this.view.t0)}; `,
            `${count(visible.length)} of ${count(lanes)} rows, ${count(this.tables.get("ops").slices)} services. `,
            b === undefined ? a === undefined ? "" : `Mark A at ${exact(a)}.`
                : `A ${exact(a)}, B ${exact(b)}: ${exact(Math.abs(b - a))} between.`);
        this.kinds.replaceChildren(...legend(...["ops", "waits", "path"].map((table) => this.windows.kinds(table))));
    }

    listen() {
        this.lanes.addEventListener("scroll", () => this.soon());
        this.lanes.addEventListener("keydown", (event) => pressed(this, event));
        listen(this);
        const watch = new ResizeObserver(() => this.soon());
        watch.observe(this.lanes);
        this.leaves.push(() => watch.disconnect());
    }

    laneAt(y) {
        if (y >= AXIS && y < AXIS + ROW) return {table: "path", lane: 0, title: "critical path"};
        return y < TOP ? undefined : this.rows.laneAt(y - TOP + this.lanes.scrollTop);
    }

    pointAt(point) {
        this.hover = point;
        if (point && point.x >= this.drawing.names && this.view) {
            const lane = this.laneAt(point.y);
            const t = this.drawing.t(point.x, this.view);
            const what = lane ? under(this.windows.get(lane.table, lane.lane), t, this.view, this.windows.kinds(lane.table)) : "";
            point.text = `${exact(t)}${what ? `  ${what}` : ""}`;
        }
        this.soon();
    }

    // Selects the slice of an op, or the one at a time of a lane.
    async choose(asked, isFar) {
        let found;
        try {
            found = await json("slice", {run: this.run, stamp: this.stamp, ...asked});
        } catch (error) {
            if (error.status === 409) await this.reopen();
            else this.panel.replaceChildren(note(error.message));
            return;
        }
        if (this.isClosed) return;
        this.selected = found.name === undefined ? null : found;
        if (this.selected) this.reveal(found, isFar);
        this.panel.replaceChildren(...selection(this, found));
        this.soon();
    }

    reveal(found, isFar) {
        const {t0, t1} = this.view;
        if (isFar && (found.t1_ps < t0 || found.t0_ps > t1 || found.t1_ps - found.t0_ps < (t1 - t0) / 500) && this.page.state.t1 === undefined) {
            const width = Math.max((found.t1_ps - found.t0_ps) * 12, LEAST_PS);
            this.look({t0: (found.t0_ps + found.t1_ps - width) / 2, t1: (found.t0_ps + found.t1_ps + width) / 2});
        } else if (found.t1_ps < t0 || found.t0_ps > t1) {
            const middle = (found.t0_ps + found.t1_ps) / 2;
            this.look({t0: middle - (t1 - t0) / 2, t1: middle + (t1 - t0) / 2});
        }
        this.selected = {...found, t0: found.t0_ps, t1: found.t1_ps};
        if (found.table === "path") return;
        const row = this.rows.show(found.table, found.lane);
        if (!row) return;
        this.spacer.style.height = `${Math.max(this.rows.height + TOP - this.lanes.clientHeight, 0)}px`;
        const [top, seen] = [this.lanes.scrollTop, this.lanes.clientHeight - TOP];
        if (row.y < top || row.y + row.height > top + seen) this.lanes.scrollTop = Math.max(row.y - seen / 2, 0);
    }

    // Sets a mark at the edge that is nearest to the pointer, or at the begin of what is selected.
    async mark() {
        let t = this.selected ? this.selected.t0_ps : Math.round((this.view.t0 + this.view.t1) / 2);
        if (this.hover && this.hover.x >= this.drawing.names) {
            const lane = this.laneAt(this.hover.y);
            t = Math.max(Math.round(this.drawing.t(this.hover.x, this.view)), 0);
            try {
                if (lane) t = (await json("edge", {run: this.run, stamp: this.stamp, table: lane.table, lane: lane.lane, t})).t_ps;
            } catch (error) {
                if (error.status === 409) await this.reopen();
                else this.panel.replaceChildren(note(error.message));
                return;
            }
        }
        this.marks = this.marks.length === 1 ? [this.marks[0], t].sort((a, b) => a - b) : [t];
        this.soon();
    }

    around() {
        if (this.selected) this.marks = [this.selected.t0, this.selected.t1];
    }

    toMarks() {
        const [a, b] = this.marks;
        if (b > a) this.look({t0: a - (b - a) * 0.05, t1: b + (b - a) * 0.05});
    }

    step(by) {
        const op = by > 0 ? this.selected?.after : this.selected?.before;
        if (op !== undefined && op !== null) this.choose({op});
    }

    fit() {
        if (!this.selected) return;
        const width = Math.max((this.selected.t1 - this.selected.t0) * 3, LEAST_PS);
        const middle = (this.selected.t0 + this.selected.t1) / 2;
        this.look({t0: middle - width / 2, t1: middle + width / 2});
    }

    openAll(open) {
        this.rows.openAll(open);
        this.soon();
    }

    recolour(colour) {
        this.colour = colour;
        this.windows.forget();
        this.soon();
    }
}
