// What was at work between the two marks: sums beside the timeline.

import {json} from "/api.js";
import {copier, h, note, table} from "/dom.js";
import {count, duration, exact, percent} from "/format.js";

const CALM_MS = 200; // for which marks stand still before their sums are asked for
const AGAIN_MS = 3000; // before sums are asked for again that had no answer

export class Between {
    constructor(timeline) {
        this.timeline = timeline;
        this.place = h("div");
    }

    // Sees to it that the sums of the marks are shown, or none where there are less than two.
    show() {
        const {run, stamp, marks, page} = this.timeline;
        const [t0, t1] = marks;
        const asked = t1 > t0 ? {run, stamp, t0, t1, line: page.state.line} : null;
        const key = JSON.stringify(asked);
        if (key === this.key) return;
        this.key = key;
        clearTimeout(this.waits);
        if (!asked) this.place.replaceChildren();
        else this.waits = setTimeout(() => this.ask(asked, key), CALM_MS);
    }

    async ask(asked, key) {
        let found;
        try {
            found = await json("sums", asked);
        } catch (error) {
            this.failed(error, asked, key);
            return;
        }
        const text = JSON.stringify([found, asked.line]);
        if (key !== this.key || text === this.text && this.place.firstChild) return; // a run that goes on has these sums still
        this.text = text;
        this.place.replaceChildren(...sums(found, asked.line, this.timeline));
    }

    failed(error, asked, key) {
        if (key !== this.key) return;
        if (error.status === 409) {
            this.timeline.reopen();
            return;
        }
        this.text = null;
        this.place.replaceChildren(note(error.message));
        if (!error.status) this.waits = setTimeout(() => this.ask(asked, key), AGAIN_MS);
    }

    close() {
        this.key = null;
        clearTimeout(this.waits);
    }
}

function sums({t0_ps: t0, t1_ps: t1, work, path, has_path: hasPath}, line, timeline) {
    const width = t1 - t0;
    const there = work.filter((each) => each.slices);
    const rows = there.map((each) => [each.title, each.lanes, each.slices, each.busy_ps, each.busy_ps / width / each.lanes]);
    const parts = path.map((each) => [each.block, each.ps, each.ps / width]);
    const text = () => [
        ["from, ps", "to, ps"], [t0, t1], ["what", "lanes", "services", "at work, ps", "share of the lanes"], ...rows,
        ...(hasPath ? [["on the path", "ps", "share"], ...parts] : []),
    ].map((row) => row.join("\t")).join("\n");
    return [
        h("h2", null, line ? `Between the marks, ${line} alone` : "Between the marks"),
        h("p", null, `${exact(t0)} to ${exact(t1)}: ${exact(width)} `, h("button", {onclick: () => timeline.toMarks()}, "Zoom to them"), " ", copier(text)),
        rows.length ? table(["what", "services", "at work", "share"], rows.map(([title, lanes, slices, busy, share]) =>
            [h("div", {class: "wrap"}, lanes > 1 ? `${title}, ${count(lanes)} lanes` : title), count(slices), duration(busy), percent(share)]))
            : h("p", {class: "soft"}, "No block was at work."),
        hasPath ? table(["on the path", "time", "share"], parts.map(([block, ps, share]) => [block, duration(ps), percent(share)])) : "",
    ];
}
