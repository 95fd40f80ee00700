// The list of runs: what goes on, what is there, what ended without a result.

import {live} from "/api.js";
import {bar, h, note, table} from "/dom.js";
import {count, duration, quantity, seconds} from "/format.js";

const VERDICTS = {true: "ok", false: "FAILED", null: "-"};
const STUCK_S = 10; // without a sign of life, a run is said to stand still

export function show(place, page) {
    const list = h("div", {"aria-live": "off"});
    const news = h("div", {role: "status"});
    place.append(h("h1", null, "Runs"), news, list);
    const going = new Map();
    let last = null;
    const draw = () => replaced(list, shown(last, page));
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

// Shows `parts` in `list`. A part that is as it was stays, with what is selected in it, and so does the focus of a link.
function replaced(list, parts) {
    const before = [...list.children];
    const held = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    parts.forEach((part, at) => {
        if (!before[at]) list.append(part);
        else if (!before[at].isEqualNode(part)) before[at].replaceWith(part);
    });
    for (const each of before.slice(parts.length)) each.remove();
    if (held === null || list.contains(document.activeElement)) return;
    [...list.querySelectorAll("a")].find((each) => each.getAttribute("href") === held)?.focus({preventScroll: true});
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

function shown({folder, runs}, page) {
    if (!runs.length) return [h("p", null, `${folder} has no run folders yet. `, h("code", null, "kb run gemm"),
        " makes one, and it shows up here while it runs.")];
    const unfinished = runs.filter((each) => each.state !== "complete");
    const complete = runs.filter((each) => each.state === "complete");
    return [
        unfinished.map((run) => card(run, page)),
        complete.length ? finished(complete, page) : null,
        h("p", {class: "soft"}, `${count(runs.length)} ${runs.length === 1 ? "run" : "runs"} in ${folder}`),
    ].flat().filter((each) => each);
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

function finished(runs, page) {
    const rows = runs.flatMap((run) => [
        {cells: [
            run.rows.length ? h("span", null, run.name, h("small", null, ` ${run.rows.length} rows`))
                : h("a", {href: page.link({view: "overview", run: run.id})}, run.name),
            run.benchmark, run.topology, h("div", {class: run.differing ? "wrap differing" : null}, run.differing), duration(run.latency_ps), verdict(run), quantity(run.nbytes, "B"),
            run.when.slice(0, 19).replace("T", " "),
        ]},
        ...run.rows.map((row) => ({class: "row", cells: [
            h("a", {href: page.link({view: "overview", run: row.id})}, row.folder), "", "",
            Object.entries(row.shape).map(([name, value]) => `${name}=${value}`).join(" "),
            duration(row.latency_ps), verdict(row), "", "",
        ]})),
    ]);
    return table(["run", "benchmark", "topology", "parameters", "latency", "verified", "size", "written (UTC)"], rows, {text: 4});
}

function verdict({verified, by_sample: bySample}) {
    return h("span", {class: verified === false ? "bad" : null}, VERDICTS[verified], verified && bySample ? ", by sample" : null);
}
