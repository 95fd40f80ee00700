// Arrows on request: from what held up the selected service to its begin, and from sends to receipts in the window.

import {json} from "/api.js";
import {count} from "/format.js";

const CALM_MS = 200; // for which the window stands still before its messages are asked for

export class Arrows {
    constructor(timeline) {
        this.timeline = timeline;
        this.messages = [];
    }

    toggle() {
        this.isOn = !this.isOn;
        this.key = null;
        this.messages = [];
    }

    // Sees to it that the messages of the window are there, if they are wanted.
    need() {
        if (!this.isOn) return;
        const {run, stamp, view} = this.timeline;
        const asked = {run, stamp, t0: Math.floor(view.t0), t1: Math.ceil(view.t1)};
        const key = JSON.stringify(asked);
        if (key === this.key) return;
        this.key = key;
        clearTimeout(this.waits);
        this.waits = setTimeout(() => this.ask(asked, key), CALM_MS);
    }

    async ask(asked, key) {
        try {
            const {first, count: all} = await json("arrows", asked);
            if (key !== this.key) return;
            [this.messages, this.count] = [first, all];
            this.timeline.soon();
        } catch (error) {
            if (error.status === 409) this.timeline.reopen();
        }
    }

    close() {
        this.isOn = false;
        clearTimeout(this.waits);
    }

    // What is shown of all messages of the window, in words.
    text() {
        if (!this.isOn || !this.count) return "";
        const shown = this.messages.length;
        return shown < this.count ? ` The first ${shown} of ${count(this.count)} messages have arrows; zoom in for others.` : "";
    }

    // The ends of all arrows, as times and heights among the rows, and whether an arrow is one of many. The message that
    // is selected always has one.
    ends() {
        const {cause, selected, tree} = this.timeline;
        const end = (place) => place && {t: place.t_ps, y: tree.middle(place)};
        const found = this.isOn ? this.messages.map(({sent, taken}) => [end(sent), end(taken), true]) : [];
        if (selected?.message) found.push([end(selected.message.sent), end(selected.message.taken)]);
        const by = this.isOn && selected && cause?.op === selected.record?.op ? cause?.by : null;
        if (by) found.push([end({table: "ops", lane: by.lane, t_ps: Math.min(by.t1_ps, selected.t0_ps)}), end({...selected, t_ps: selected.t0_ps})]);
        return found.filter(([a, b]) => a?.y !== undefined && b?.y !== undefined);
    }
}
