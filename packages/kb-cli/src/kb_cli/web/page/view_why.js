// Why a service started only then: its waits, and the chain of causes back to the start of its program.

import {json} from "/api.js";
import {bar, h, note, put, section, table} from "/dom.js";
import {count, exact, percent} from "/format.js";
import {REASONS, via} from "/words.js";

export async function show(place, page) {
    const {run, op} = page.state;
    const input = h("input", {type: "number", min: "0", required: true, value: op ?? "", "aria-label": "op"});
    const form = h("form", {class: "tools", onsubmit: (event) => {
        event.preventDefault();
        page.go({op: input.value});
    }}, h("label", null, "op ", input), h("button", null, "Why?"));
    if (op === undefined) {
        put(place, h("h1", null, "Why did this start only then?"),
            h("p", null, "Select a service in the ", h("a", {href: page.link({view: "timeline"})}, "timeline"),
                ", or one of the longest waits in ", h("a", {href: page.link({view: "stalls"})}, "stalls"), ", or name an op."), form);
        return;
    }
    const found = await json("why", {run, op});
    const rows = h("tbody");
    const more = h("p");
    put(place, heading(found, page), form, answer(found, page), shares(found),
        section("The chain of causes", "The latest link first. Each was at work until what follows it could begin, so the links have "
            + "neither gaps nor overlaps.", h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "chain of causes"},
            h("table", null, h("thead", null, h("tr", null, ["from", "for", "PE", "block", "what", "line", "held up the next by"]
                .map((each, at) => h("th", {scope: "col", class: at < 2 ? "number" : "text"}, each)))), rows)), more));
    await links(found, page, rows, more);
}

function heading({shown}, page) {
    return h("h1", null, `${shown.name} on ${shown.record.component}, `,
        h("a", {href: page.link({view: "timeline", op: shown.record.op, t0: null, t1: null})}, `op ${shown.record.op}`));
}

function link(op, page, text) {
    return h("a", {href: page.link({view: "why", op})}, text ?? `op ${op}`);
}

function answer({shown, start, left}, page) {
    const {record} = shown;
    const waits = Object.entries(record.waits_ps);
    const parts = [];
    if (!waits.length) parts.push(h("p", {class: "sentence"}, `It started at once when its tile came, at ${exact(shown.t0_ps)}.`));
    else {
        parts.push(h("p", {class: "sentence"}, `Its tile came at ${exact(record.ready_ps)} and waited `,
            `${exact(shown.t0_ps - record.ready_ps)}: ${waits.map(([name, ps]) => `${REASONS[name]} for ${exact(ps)}`).join(", ")}.`));
    }
    if (start.op !== null && start.op !== record.op) parts.push(h("p", null, `What held it up last: ${via(start.via)}, `, link(start.op, page), "."));
    if (record.out_ps > shown.t1_ps) {
        parts.push(h("p", null, `It ended at ${exact(shown.t1_ps)}, but its tile could leave only ${exact(record.out_ps - shown.t1_ps)} later, `
            + `because of ${via(left.via)}`, left.op === null || left.op === record.op ? "." : [": ", link(left.op, page), "."]));
    }
    return parts;
}

function shares(found) {
    const total = found.shown.t1_ps - found.from_ps;
    return section("What the time before its end went to",
        `From the start of its program at ${exact(found.from_ps)} to its end at ${exact(found.shown.t1_ps)}: ${exact(total)} in ${count(found.count)} links.`,
        table(["block", "what", "", "share", "time"], found.shares.slice(0, 12).map((each) => [each.block, each.what,
            bar(["path", total ? each.ps / total : 0]), percent(total ? each.ps / total : 0), exact(each.ps)]), {text: 3}));
}

async function links(found, page, rows, more) {
    let shown = 0;
    const add = (part) => {
        rows.append(...part.links.map((each) => row(each, page)));
        shown += part.links.length;
        const left = part.count - shown;
        more.replaceChildren(left > 0 ? h("button", {onclick: next}, `The ${count(Math.min(left, 200))} links before these, of ${count(left)}`) : "");
    };
    const next = async () => {
        try {
            add(await json("why", {run: page.state.run, op: page.state.op, skip: shown}));
        } catch (error) {
            more.replaceChildren(note(error.message));
        }
    };
    add(found);
}

function row(each, page) {
    const wide = Math.max((each.t1_ps - each.t0_ps) * 4, 100);
    const middle = (each.t0_ps + each.t1_ps) / 2;
    const there = page.link({view: "timeline", op: each.op, t0: Math.max(Math.floor(middle - wide), 0), t1: Math.ceil(middle + wide)});
    return h("tr", null, h("td", {class: "number"}, h("a", {href: there, title: "in the timeline"}, exact(each.t0_ps))),
        h("td", {class: "number"}, exact(each.t1_ps - each.t0_ps)),
        [each.pe || "-", each.block, each.op === null ? each.what : link(each.op, page, each.what), each.line || "-", via(each.via)]
            .map((text) => h("td", {class: "text"}, text)));
}
