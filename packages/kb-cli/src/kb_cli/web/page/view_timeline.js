// The timeline: what happened when, on every block.

import {Refused, json, live} from "/api.js";
import {h, note} from "/dom.js";
import {onChange} from "/palette.js";
import {Arrows} from "/timeline_arrows.js";
import {Drawing} from "/timeline_draw.js";
import {Windows} from "/timeline_data.js";
import {ORDERS, READING, Tree, laneOf} from "/timeline_tree.js";
import {pressed} from "/timeline_keys.js";
import {listen} from "/timeline_pointer.js";
import {Between} from "/timeline_sums.js";
import {sentence} from "/timeline_straggler.js";
import {legend, search, selection, tools} from "/timeline_panel.js";
import {hoverText, marksText, rowText, windowText} from "/timeline_words.js";

const LEAST_PS = 10; // the shortest window
const AGAIN_MS = 3000; // between two looks at the log of a run that goes on
const FURTHER = ["waits", "memories", "launches", "path"]; // asked for when the first lanes are drawn, because they take longer
const LINKS_AT_ONCE = 100_000; // services up to which the links are read without being asked for
const SLICES = ["ops", "waits", "memories", "launches"];
const SHOWN = [...SLICES, "links", "ops.folded", "memories.folded", "links.folded"];
const NARROW = 820; // pixels of a page, up to which the lanes have 60 % of its height
const MOST_PINS = 12;
const APART = " | "; // between pins in the address

export async function show(place, page) {
    const found = new Timeline(place, page);
    await found.open();
    return () => found.close();
}

class Timeline {
    constructor(place, page) {
        this.page = page;
        this.run = page.state.run;
        const told = (error) => {
            if (error?.status === 409) this.reopen();
            else this.further();
            if (error && error.status !== 409) this.trouble.replaceChildren(note(error.message));
            else if (!this.windows.refused.size) this.trouble.replaceChildren();
            this.soon();
        };
        [this.windows, this.map] = [new Windows(told), new Windows(told)];
        this.canvas = h("canvas", {"aria-hidden": "true"});
        this.drawing = new Drawing(this.canvas);
        this.spacer = h("div");
        this.lanes = h("div", {class: "lanes", tabindex: "0", role: "application",
            "aria-label": "lanes over time; the text above says what they show, and Keys which keys work"}, this.canvas, this.spacer);
        this.status = h("p", {class: "soft status", role: "status"});
        this.last = h("p", {class: "straggler"});
        this.spoken = h("p", {class: "unseen", role: "status"});
        this.notes = h("div");
        this.trouble = h("div", {role: "status"});
        this.kinds = h("p", {class: "key legend"});
        this.panel = h("div");
        this.between = new Between(this);
        this.arrows = new Arrows(this);
        const {state} = page;
        this.marks = ["a", "b"].map((name) => state[name]).filter((t) => t !== undefined).sort((a, b) => a - b);
        this.colour = state.colour ?? "stage";
        this.order = Object.hasOwn(ORDERS, state.order ?? "") ? state.order : "name";
        this.pins = state.pins?.split(APART).slice(0, MOST_PINS) ?? [];
        place.append(tools(this), this.status, this.last, this.spoken, this.notes, this.trouble,
            h("div", {class: "stage"}, this.lanes, h("aside", {"aria-live": "polite"}, this.between.place, this.panel)), this.kinds);
        this.leaves = [onChange(() => {
            this.forget();
            this.soon();
        })];
    }

    forget() {
        this.windows.forget();
        this.map.forget();
    }

    async open() {
        const first = await this.list("ops");
        this.take(first);
        const {t0, t1} = this.page.state;
        this.view = this.fitting(t1 === undefined ? this.bounds : {t0, t1});
        this.grow();
        this.listen();
        const {op, find} = this.page.state;
        if (op !== undefined) this.choose({op}, true);
        else if (find) search(this, find);
        this.soon();
        if (!first.groups.length) this.further(); // no window will come
        this.follow();
    }

    // Takes over the list of the table of ops, and with it the run as it is now.
    take(first) {
        this.bounds = {t0: first.from_ps, t1: first.until_ps};
        this.stamp = first.stamp;
        this.tables = new Map([["ops", first]]);
        this.asked = new Set();
        this.launches = first.launches.map(([t0, t1], number) => ({number, t0, t1})).sort((a, b) => a.t0 - b.t0);
        this.notes.replaceChildren(...first.notes.map(note));
    }

    // Makes the rows of what was read so far.
    grow() {
        const lists = new Map(this.tables);
        if (this.tables.get("ops").tables.includes("links") && !lists.has("links")) lists.set("links", {isUnread: true, isAsked: this.asked.has("links")});
        const room = innerWidth > NARROW ? innerHeight - 300 : innerHeight * 0.6 - 110; // without the rest of the page
        const tree = new Tree(lists, room);
        for (const node of tree.byKey.values()) if (node.own && node.units) node.share = node.busy / node.units / (this.bounds.t1 - this.bounds.t0);
        if (!this.tree) tree.sort(this.order);
        else this.stay(tree.like(this.tree));
        this.tree = tree;
        const told = sentence(this);
        if (told[0] !== this.last.firstChild?.data) this.last.replaceChildren(...told);
    }

    // Keeps what is selected, or what is on top, where it is seen when `tree` has other rows above.
    stay(tree) {
        const {lanes, selected} = this;
        const key = selected && this.tree.leaf(selected)?.key;
        const before = this.tree.rowOf(key) ?? (lanes.scrollTop > 0 && this.tree.between(lanes.scrollTop, lanes.scrollTop + 1)[0]);
        const after = before && tree.rowOf(before.node.key);
        if (!after) return;
        this.room(tree);
        lanes.scrollTop += after.y - before.y;
    }

    // Asks for the other tables, once.
    further() {
        if (this.isFurther || this.isClosed) return;
        this.isFurther = true;
        const all = this.tables.get("ops").slices <= LINKS_AT_ONCE ? [...FURTHER, "links"] : FURTHER;
        for (const table of all) this.more(table);
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
        const first = await json("lanes", {run: this.run, table: "ops"});
        if (this.isClosed) return;
        const whole = this.view.t0 <= this.bounds.t0 && this.view.t1 >= this.bounds.t1;
        this.forget();
        this.trouble.replaceChildren();
        this.take(first);
        this.grow();
        if (whole) this.view = {...this.bounds};
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
        this.asked.add(table);
        const there = this.tables.get("ops").tables.includes(table);
        try {
            this.tables.set(table, there ? await this.list(table) : {groups: []}); // the notes say what the log lacks
        } catch (error) {
            if (!(error instanceof Refused)) throw error;
            this.tables.set(table, {groups: []});
            this.notes.append(note(error.message));
        }
        if (this.isClosed) return;
        if (table !== "path") this.grow();
        this.soon();
    }

    close() {
        this.forget();
        this.between.close();
        this.arrows.close();
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
        if (!width || !this.tree) return;
        const pinned = this.pins.map((key) => this.tree.byKey.get(key)).filter((node) => node).map((node) => this.tree.row({...node, open: false}));
        this.drawing.size(width, height, Math.min(Math.max(width * 0.2, 112), 220), pinned);
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.room();
        const scroll = this.lanes.scrollTop;
        this.ask(scroll, height, width);
        const {view, bounds, tree, windows, selected, marks, hover, cursor, pins} = this;
        this.drawing.draw({view, bounds, tree, scroll, windows, selected, marks, hover, cursor, pins,
            path: this.pathText(), arrows: this.arrows.ends(), map: this.mapped()});
        this.tell(scroll, height);
        this.between.show();
        this.arrows.need();
        clearTimeout(this.keeping);
        this.keeping = setTimeout(() => this.keep(), 300);
    }

    // Lets the lanes scroll over all rows.
    room(tree = this.tree) {
        this.spacer.style.height = `${Math.max(tree.height + this.drawing.top - this.lanes.clientHeight, 0)}px`;
    }

    // The heat of the whole run.
    mapped() {
        const ref = this.tree.whole?.own;
        const found = ref && this.map.get(ref.table, ref.lane);
        return found && {found, kinds: this.map.kinds(ref.table)};
    }

    pathText() {
        const found = this.tables.get("path");
        if (!found) return READING;
        return found.groups.length ? "" : "not told by the log";
    }

    ask(scroll, height, width) {
        const {drawing, tree, bounds} = this;
        const visible = [...drawing.pinned, ...tree.between(scroll, scroll + height - drawing.top)];
        const pixels = Math.max(Math.round((width - drawing.names) * drawing.ratio), 1);
        const fields = {run: this.run, stamp: this.stamp, colour: this.colour, line: this.page.state.line};
        for (const table of SHOWN) {
            const lanes = visible.flatMap((row) => row.lanes).filter((each) => each.table === table).map((each) => each.lane);
            this.windows.need(table, [...new Set(lanes)], {...this.view, pixels}, fields, bounds);
        }
        if (this.tables.get("path")?.groups.length) this.windows.need("path", [0], {...this.view, pixels}, fields, bounds);
        if (tree.whole) this.map.need(tree.whole.own.table, [tree.whole.own.lane], {...bounds, pixels}, fields, bounds);
    }

    keep() {
        if (this.isClosed || this.page.state.view !== "timeline") return;
        const whole = this.view.t0 <= this.bounds.t0 && this.view.t1 >= this.bounds.t1;
        const [a, b] = this.marks;
        this.page.keep({
            t0: whole ? null : Math.floor(this.view.t0), t1: whole ? null : Math.ceil(this.view.t1), a, b,
            colour: this.colour === "stage" ? null : this.colour, op: this.selected?.record?.op,
            order: this.tree.order === "name" ? null : this.tree.order, pins: this.pins.join(APART) || null,
        });
    }

    tell(scroll, height) {
        const seen = this.tree.between(scroll, scroll + height - this.drawing.top).length;
        this.status.replaceChildren(windowText(this, seen), marksText(this.marks), this.arrows.text());
        this.kinds.replaceChildren(...legend(["ops", "ops.folded", "memories", "waits", "path", "links.folded"].map((table) => this.windows.kinds(table))));
    }

    // The launch that began last before a time.
    launchAt(t) {
        return this.launches.findLast((each) => each.t0 <= t);
    }

    listen() {
        this.lanes.addEventListener("scroll", () => this.soon());
        this.lanes.addEventListener("keydown", (event) => pressed(this, event));
        listen(this);
        const watch = new ResizeObserver(() => this.soon());
        watch.observe(this.lanes);
        this.leaves.push(() => watch.disconnect());
    }

    at(y) {
        return this.drawing.at(y, this.tree, this.lanes.scrollTop);
    }

    laneAt(y) {
        const row = this.at(y);
        if (row === "path") return {table: "path", lane: 0};
        return row?.lanes?.length ? laneOf(row, y - row.at) : undefined;
    }

    pointAt(point) {
        this.hover = point;
        const row = point && this.view ? this.at(point.y) : null;
        if (row?.node) point.row = row.node.key;
        if (row) point.text = hoverText(this, row, point);
        this.soon();
    }

    moveCursor(node) {
        if (!node) return;
        this.cursor = node.key;
        this.spoken.textContent = rowText(node);
        this.see(this.tree.rowOf(node.key));
    }

    // Scrolls to a row.
    see(row) {
        if (!row) return;
        this.room();
        const [top, seen] = [this.lanes.scrollTop, this.lanes.clientHeight - this.drawing.top];
        if (row.y < top) this.lanes.scrollTop = row.y;
        else if (row.y + row.height > top + seen) this.lanes.scrollTop = row.y + row.height - seen;
        this.soon();
    }

    clickName({key}, onPin) {
        const node = this.tree.byKey.get(key); // a pinned row has a copy
        this.moveCursor(node);
        if (onPin) this.pin(node.key);
        else this.toggle(node);
    }

    toggle(node) {
        if (node.isUnread) {
            if (this.asked.has("links")) return;
            node.waits = READING;
            this.more("links").then(() => this.toggle(this.tree.byKey.get("links") ?? {}));
            return;
        }
        this.tree.toggle(node);
        this.moveCursor(node);
        this.soon();
    }

    openLevel(node, open) {
        this.tree.openLevel(node, open);
        let at = this.tree.byKey.get(this.cursor);
        while (at && !this.tree.rowOf(at.key)) at = at.parent; // its row may be folded away
        this.moveCursor(at);
    }

    pin(key) {
        if (!this.tree.byKey.has(key)) return;
        this.pins = this.pins.includes(key) ? this.pins.filter((each) => each !== key) : [...this.pins, key].slice(-MOST_PINS);
        this.soon();
    }

    sort(order) {
        this.tree.sort(order);
        this.orders.value = order;
        this.lanes.scrollTop = 0;
        this.soon();
    }

    nextOrder() {
        const all = Object.keys(ORDERS);
        this.sort(all[(all.indexOf(this.tree.order) + 1) % all.length]);
    }

    // Puts the PE that ended last on top of its cube, and its end into the middle of the window.
    showStraggler(node) {
        this.sort("end");
        this.tree.toggle(node, true);
        this.tree.show(node);
        this.cursor = null;
        this.moveCursor(node);
        this.lanes.focus();
        this.choose({op: node.lastOp});
    }

    heldUp(cause) {
        this.cause = cause;
        this.soon();
    }

    showArrows() {
        this.arrows.toggle();
        if (this.arrows.isOn && this.cause?.by && this.selected) this.tree.show(this.tree.leaf({table: "ops", lane: this.cause.by.lane}));
        this.see(this.selected && this.tree.rowOf(this.tree.leaf(this.selected)?.key));
    }

    drop() {
        [this.marks, this.selected] = [[], null];
        this.panel.replaceChildren();
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
        this.cause = null;
        if (this.selected) this.reveal(found, isFar);
        this.panel.replaceChildren(...selection(this, found));
        if (this.selected) this.see(this.tree.rowOf(this.tree.leaf(found)?.key)); // the panel takes of the height
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
        if (found.table !== "path") this.see(this.tree.show(this.tree.leaf(found)));
    }

    // Sets a mark at the edge of the window that is nearest to the pointer, or at the begin of what is selected.
    async mark() {
        const isSeen = this.selected && this.selected.t0_ps >= this.view.t0 && this.selected.t0_ps <= this.view.t1;
        let t = isSeen ? this.selected.t0_ps : Math.round((this.view.t0 + this.view.t1) / 2);
        if (this.hover && this.hover.x >= this.drawing.names) {
            const lane = this.laneAt(this.hover.y);
            const hasEdges = lane && (lane.table === "path" || SLICES.includes(lane.table));
            t = Math.max(Math.round(this.drawing.t(this.hover.x, this.view)), 0);
            const [t0, t1] = [Math.floor(this.view.t0), Math.ceil(this.view.t1)];
            try {
                if (hasEdges) t = (await json("edge", {run: this.run, stamp: this.stamp, ...lane, t, t0, t1})).t_ps ?? t;
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
        this.tree.openAll(open);
        this.soon();
    }

    recolour(colour) {
        this.colour = colour;
        this.forget();
        this.soon();
    }
}
