// The pointer on the lanes: the wheel zooms and moves, a drag moves, a drag with Shift sets the marks, a click selects.

import {TOP} from "/timeline_draw.js";

const ZOOM = 1.25;

// Lets the pointer work on the lanes of `timeline`.
export function listen(timeline) {
    const pointer = new Pointer(timeline);
    const on = (name, handle, options) => timeline.lanes.addEventListener(name, handle, options);
    on("wheel", (event) => pointer.wheel(event), {passive: false});
    on("pointerdown", (event) => pointer.down(event));
    on("pointermove", (event) => pointer.move(event));
    on("pointerup", (event) => pointer.up(event));
    on("pointercancel", () => {
        pointer.drag = null;
    });
    on("pointerleave", () => timeline.pointAt(null));
    on("dblclick", (event) => timeline.zoom(1 / ZOOM ** 4, timeline.drawing.t(event.offsetX, timeline.view)));
}

class Pointer {
    constructor(timeline) {
        this.timeline = timeline;
        this.drag = null;
    }

    at(event) {
        const box = this.timeline.canvas.getBoundingClientRect();
        return {x: event.clientX - box.left, y: event.clientY - box.top};
    }

    wheel(event) {
        const {drawing, view} = this.timeline;
        const {x} = this.at(event);
        if (x < drawing.names) return; // over the names the lanes scroll
        event.preventDefault();
        const unit = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
            this.timeline.pan((event.deltaX || event.deltaY) * unit / (drawing.width - drawing.names));
        } else this.timeline.zoom(ZOOM ** (event.deltaY * unit / 100), drawing.t(x, view));
    }

    down(event) {
        if (event.button !== 0) return;
        const {lanes, view} = this.timeline;
        lanes.setPointerCapture(event.pointerId);
        this.drag = {...this.at(event), view, scroll: lanes.scrollTop, moved: false, span: event.shiftKey};
    }

    move(event) {
        const {drawing, lanes, view} = this.timeline;
        const {x, y} = this.at(event);
        if (!this.drag) {
            this.timeline.pointAt({x, y});
            return;
        }
        const [dx, dy] = [x - this.drag.x, y - this.drag.y];
        if (Math.abs(dx) + Math.abs(dy) > 4) this.drag.moved = true;
        if (!this.drag.moved || this.drag.x < drawing.names) return;
        if (this.drag.span) {
            const {t0, t1} = this.timeline.bounds;
            this.timeline.marks = [this.drag.x, x].map((each) => Math.min(Math.max(Math.round(drawing.t(each, view)), t0), t1))
                .sort((a, b) => a - b);
        } else {
            const {t0, t1} = this.drag.view;
            const by = dx / (drawing.width - drawing.names) * (t1 - t0);
            this.timeline.look({t0: t0 - by, t1: t1 - by});
            lanes.scrollTop = this.drag.scroll - dy;
        }
        this.timeline.soon();
    }

    up(event) {
        const {drag, timeline} = this;
        const {drawing, lanes, rows, view} = timeline;
        this.drag = null;
        if (!drag || drag.moved) return;
        const {x, y} = this.at(event);
        if (x < drawing.names) {
            const [row] = rows.between(y - TOP + lanes.scrollTop, y - TOP + lanes.scrollTop + 1);
            if (y >= TOP && row && !row.lane) {
                rows.toggle(row.group);
                timeline.soon();
            }
            return;
        }
        const lane = timeline.laneAt(y);
        if (lane) timeline.choose({table: lane.table, lane: lane.lane, t: Math.max(Math.floor(drawing.t(x, view)), 0)});
    }
}
