// What changed between another run, which was before, and this one.

import {json} from "/api.js";
import {h, note, put, section, table} from "/dom.js";
import {count, duration, signed, valueText} from "/format.js";
import {via} from "/words.js";

const MOST = 40;
const FEW = 12;
const BLOCKS = 4;

export async function show(place, page) {
    const {runs} = await json("runs");
    const all = runs.filter((each) => each.state === "complete").flatMap((each) => (each.rows.length
        ? each.rows.map((row) => ({id: row.id, name: `${each.name}/${row.folder}`, benchmark: each.benchmark, latency: row.latency_ps}))
        : [{id: each.id, name: [each.name, each.differing].filter(Boolean).join(" "), benchmark: each.benchmark, latency: each.latency_ps}]));
    const mine = all.find((each) => each.id === page.state.run);
    const others = all.filter((each) => each.id !== page.state.run)
        .sort((a, b) => (b.benchmark === mine?.benchmark) - (a.benchmark === mine?.benchmark));
    const choice = h("select", {"aria-label": "the run before", onchange: (event) => page.go({with: event.target.value})},
        h("option", {value: ""}, "choose a run"),
        others.map((each) => h("option", {value: each.id, selected: each.id === page.state.with}, `${each.name}, ${duration(each.latency)}`)));
    put(place, h("h1", null, "Compare"), h("p", {class: "tools"}, h("label", null, "Before: ", choice), h("span", null, `After: ${mine?.name ?? "this run"}`)));
    if (!others.length) put(place, h("p", null, "There is no other run to compare with. ", h("code", null, "kb run"), " makes one."));
    if (!page.state.with) return;
    try {
        put(place, comparison(await json("compare", {run: page.state.run, with: page.state.with}), page));
    } catch (error) {
        put(place, note(error.message));
    }
}

function change(ps) {
    return h("span", {class: ps < 0 ? "better" : ps > 0 ? "bad" : null}, `${ps > 0 ? "+" : ""}${duration(ps)}`);
}

function place(each) {
    return each.place === each.place_after ? each.place : `${each.place}, now ${each.place_after}`;
}

function values(each) {
    if (each.moved) return [`element ${each.before}`, `element ${each.after}`];
    return [each.before, each.after].map((value, at) => (each.stated[at] ? valueText(value) : "not stated"));
}

function configuration(changes) {
    const rows = (some) => table(["part", "place", "before", "after"], some.map((each) =>
        [each.part, place(each), ...values(each)].map((cell) => h("div", {class: "wrap"}, cell))), {text: 4});
    if (changes.length <= FEW) return rows(changes);
    return h("details", null, h("summary", null, `${count(changes.length)} values`), rows(changes));
}

function same(found) {
    return found.configuration.length ? "The digests of the two logs are equal: the differences changed no operation and no time."
        : "The same run: the digests of the two logs are equal.";
}

function blocks(changes) {
    const all = Object.entries(changes);
    const told = all.slice(0, BLOCKS).map(([block, ps], at) => [at ? ", " : "", `${block} `, change(ps)]);
    return all.length > BLOCKS ? [...told, `, ${count(all.length - BLOCKS)} more`] : told;
}

function pair([before, after]) {
    return before === after ? count(before) : `${before ?? "-"} → ${after ?? "-"}`;
}

function ops(changes) {
    const rows = changes.map((each) => {
        const [before, after] = each.latency_ps;
        const [times, timesAfter] = each.repeats;
        const shown = before === null ? "new" : after === null ? "gone" : signed(before ? (after - before) / before : 0);
        return [each.name, before === null ? "-" : duration(before), after === null ? "-" : duration(after), shown, pair(each.launches), pair(each.repeats),
            change((after ?? 0) * (timesAfter ?? 0) - (before ?? 0) * (times ?? 0)),
            each.top === null ? "-" : [`${each.top.block} `, change(each.top.path_ps[1] - each.top.path_ps[0])]];
    });
    return table(["op", "before", "after", "change", "launches", "x", "in the model", "most of it"], rows);
}

function leftOut(pes) {
    const number = pes.slice(MOST).reduce((sum, each) => sum + each.pes.length, 0);
    return number ? ` ${count(number)} PEs with other changes are left out.` : "";
}

function comparison({found, blocks_alone: blocksAlone}, page) {
    const [before, after] = found.latency_ps;
    const rows = found.rows.filter((each) => !page.state.line || each.line_after === page.state.line);
    return [
        h("p", {class: "sentence"}, found.same ? same(found)
            : [`${duration(before)} → ${duration(after)}, `, before || !after ? signed(before ? found.change_ps / before : 0) : change(after), "."]),
        found.model === null ? null : h("p", null, `The model: ${found.model.total_ps.map(duration).join(" → ")}.`),
        found.sentences.map((each) => h("p", null, each)),
        found.same ? null : found.missing.map(note),
        blocksAlone ? note("The benchmarks differ, so blocks alone are compared.") : null,
        section("What is different", found.configuration.length ? null : "Nothing in the configuration.",
            found.configuration.length ? configuration(found.configuration) : null),
        found.ops.length ? section("Ops", "The kernels of each op once, and in the whole model, in which it stands x times.", ops(found.ops)) : null,
        found.blocks.length ? section("Blocks", "What blocks did, and what that cost on the path.",
            table(["block", "busy before", "after", "on the path before", "after", "change"], found.blocks.map((each) =>
                [each.block, ...each.busy_ps.map(duration), ...each.path_ps.map(duration), change(each.path_ps[1] - each.path_ps[0])]))) : null,
        rows.length ? section("The path", `The changes of all rows add up to that of the whole time.${rows.length > MOST ? ` ${count(rows.length - MOST)} smaller ones are left out.` : ""}`,
            table(["line", "block", "what", "held up by", "before", "after", "change"], rows.slice(0, MOST).map((each) => [
                each.line === each.line_after ? each.line || "none" : `${each.line || "none"} → ${each.line_after || "none"}`, each.block, each.what,
                via(each.via), duration(each.before_ps), duration(each.after_ps), change(each.change_ps)]), {text: 4})) : null,
        found.pes.length > 1 ? section("PEs", `Changes in the PEs' own views.${leftOut(found.pes)}`, table(["PEs", "first", "change"], found.pes.slice(0, MOST).map((each) =>
            [count(each.pes.length), each.pes[0], blocks(each.change_ps)]), {text: 3})) : null,
    ];
}
