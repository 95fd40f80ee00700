// The list of runs: what goes on, what is there, what ended without a result.

import {live} from "/api.js";
import {bar, best, h, note, table} from "/dom.js";
import {filterBox} from "/filter.js";
import {count, duration, quantity, seconds} from "/format.js";
import {isScript, rowsText, verdict} from "/rows.js";

const STUCK_S = 10; // without a sign of life, a run is said to stand still

export function show(place, page) {
    const cards = h("div", {"aria-live": "off"});
    const finished = h("div", {"aria-live": "off"});
    const under = h("p", {class: "soft"});
    const news = h("div", {role: "status"});
    const filter = filterBox("runs", {value: page.state.find, told: (find) => page.keep({find})});
    place.append(h("h1", null, "Runs"), news, cards, filter.box, finished, under);
    const going = new Map();
    let last = null;
    let drawn = null;
    const draw = () => {
        const complete = last.runs.filter((each) => each.state === "complete");
        replaced(cards, last.runs.filter((each) => each.state !== "complete").map((run) => card(run, page)));
        filter.box.hidden = complete.length < 2;
        const now = JSON.stringify(complete);
        if (now !== drawn) again(finished, complete.length ? [tableOf(complete, page)] : []);
        drawn = now;
        filter.apply([finished]);
        under.replaceChildren(...below(last));
    };
    const clock = setInterval(() => {
        if (last?.runs.some((each) => each.state === "running")) draw();
    }, 1000);
    const deaf = live((told, connected, why) => {
        if (!connected) {
            news.replaceChildren(note(last ? `${why} The list is as it was last.` : why));
            return;
        }
        last = told;
        news.replaceChildren(...ended(going, told.runs));
        draw();
    });
    return () => {
        clearInterval(clock);
        deaf();
    };
}

// Shows `parts` in `list`. A part that is as it was stays, with what is selected in it.
function replaced(list, parts) {
    const before = [...list.children];
    const held = heldIn(list);
    parts.forEach((part, at) => {
        if (!before[at]) list.append(part);
        else if (!before[at].isEqualNode(part)) before[at].replaceWith(part);
    });
    for (const each of before.slice(parts.length)) each.remove();
    held();
}

function again(list, parts) {
    const held = heldIn(list);
    list.replaceChildren(...parts);
    held();
}

// Notes the link or the button of `list` that has the focus, and returns what gives the focus to the one that is like it.
function heldIn(list) {
    const mark = (each) => each.getAttribute("href") ?? each.textContent;
    const held = list.contains(document.activeElement) ? mark(document.activeElement) : null;
    return () => {
        if (held === null || list.contains(document.activeElement)) return;
        [...list.querySelectorAll("a, button")].find((each) => mark(each) === held)?.focus({preventScroll: true});
    };
}

// Runs that went on at the last look and are gone now, without a folder of their name.
function ended(going, runs) {
    const ids = new Set(runs.map((each) => each.id));
    const done = new Set(runs.filter((each) => each.state !== "running").map((each) => each.name));
    for (const run of runs) if (run.state === "running") going.set(run.id, run);
    for (const [id, run] of going) if (!ids.has(id) && done.has(run.name)) going.delete(id);
    return [...going].filter(([id]) => !ids.has(id)).map(([, run]) =>
        note(`${run.name}: the run ended ${stage(run)}and left no result. Its terminal says why.`));
}

function stage(run) {
    return run.progress?.t_ps ? `at ${duration(run.progress.t_ps)} ` : "";
}

function below({folder, runs}) {
    if (!runs.length) return [`${folder} has no run folders yet. `, h("code", null, "kb run gemm"),
        " makes one, and it shows up here while it runs."];
    return [`${count(runs.length)} ${runs.length === 1 ? "run" : "runs"} in ${folder}`];
}

function card(run, page) {
    const now = run.progress;
    const words = {running: "runs", interrupted: "was interrupted", stuck: "is stuck", died: "died: its process is gone"};
    const still = now && run.state === "running" ? sinceAdvance(run) : 0;
    return h("article", {class: `card ${run.state}`},
        h("h2", null, h("a", {href: page.link({view: "timeline", run: run.id})}, run.name), " ", h("em", null, words[run.state])),
        now ? progress(run, now) : h("p", {class: "soft"}, "It has not said yet what it does."),
        still > STUCK_S ? note(`Nothing has advanced for ${seconds(still)}.`) : null,
        now?.kernel_positions?.length ? h("pre", null, now.kernel_positions.join("\n")) : null);
}

function sinceAdvance({updated_at: updatedAt, progress: now}) {
    return Math.max(Date.now() / 1000 - updatedAt, 0) + now.elapsed_s - now.advanced_s;
}

function progress(run, now) {
    const facts = [
        ["phase", now.what ? `${now.phase}: ${now.what}` : now.phase],
        now.row === null ? null : ["row", `${now.row} of ${now.rows}`],
        now.t_ps === null ? null : ["simulated", duration(now.t_ps)],
        now.done === null ? null : [now.t_ps === null ? "done" : "stages", `${count(now.done)} of ${count(now.total)}`],
        now.pes ? ["PEs done", `${now.pes_done} of ${now.pes}`] : null,
        now.left_s === null || run.state !== "running" ? null
            : ["left", `${seconds(now.left_s)}${now.left_grows ? " or more" : ""}`],
        ["elapsed", seconds(now.elapsed_s)],
        run.state === "running" ? ["last advance", `${seconds(sinceAdvance(run))} ago`] : null,
    ];
    return [
        now.total ? bar(["path", now.done / now.total]) : null,
        h("dl", {class: "figures"}, facts.filter((each) => each).map(([name, text]) =>
            h("div", null, h("dt", null, name), h("dd", null, text)))),
    ];
}

// A row for each run. The fastest run of each benchmark is marked, whatever its parameters are.
function tableOf(runs, page) {
    const fastest = new Map();
    for (const each of runs) fastest.set(each.benchmark, Math.min(fastest.get(each.benchmark) ?? Infinity, each.latency_ps));
    const several = (run) => runs.filter((each) => each.benchmark === run.benchmark).length > 1;
    const rows = runs.map((run) => {
        const time = duration(run.latency_ps);
        return {"data-find": run.rows.map((row) => row.shape.kernel ?? "").join(" "), cells: [
            [h("a", {href: page.link({view: "overview", run: run.id, find: null, sort: null})}, run.name),
                run.rows.length ? h("small", null, ` ${rowsText(run)}`) : null],
            isScript(run) ? "script" : run.benchmark, run.topology,
            several(run) && run.latency_ps === fastest.get(run.benchmark) ? best(time, `the fastest run of ${run.benchmark}`) : time,
            verdict(run), h("div", {class: "wrap differing"}, about(run)), quantity(run.nbytes, "B"), run.when.slice(0, 19).replace("T", " "),
        ]};
    });
    return table(["run", "benchmark", "topology", "latency", "verified", "parameters", "size", "written (UTC)"], rows,
        {text: 3, wide: [4, 5, 7], sort: {now: page.state.sort, told: (sort) => page.keep({sort})}});
}

function about(run) {
    if (isScript(run)) return [...new Set(run.rows.map((row) => row.shape.kernel))].join(", ");
    return run.rows.length ? Object.keys(run.rows[0].shape).join(", ") : run.differing;
}

