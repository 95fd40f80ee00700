// What bounds the run: the report, as kb report computes it.

import {json} from "/api.js";
import {bar, h, note, put, section, table} from "/dom.js";
import {overviewOfRows} from "/rows.js";
import {count, duration, folded, percent, quantity, signed, valueText} from "/format.js";

const MOST = 12;
const LEAST = 0.001;
const PARTS = 4;

export async function show(place, page) {
    const several = (await json("runs")).runs.find((each) => each.id === page.state.run && each.rows.length);
    if (several) {
        overviewOfRows(place, several, page);
        return;
    }
    const {report, folder, model, tables} = await json("overview", {run: page.state.run});
    const levers = h("div", null, h("p", {class: "soft"}, "..."));
    const [notes, ofLog] = [h("div"), h("div")];
    const drawLog = (more) => {
        notes.replaceChildren(...more.notes.map(note));
        ofLog.replaceChildren(...[lines({...report, ...more}, page), tiles(report, page), talk(more, page)].flat().filter(Boolean));
    };
    put(place,
        h("h1", null, `${report.benchmark} on ${report.topology}`),
        h("p", {class: "sentence"}, report.sentence),
        figures(report, model),
        report.frame ? h("p", {class: "soft"}, report.frame) : null,
        report.band ? h("p", {class: "soft"}, `Latency on a device: ${report.band}`) : null,
        notes,
        page.state.line ? ofLine(report, page) : null,
        tables.map((each) => section(each.title, each.text, table(each.headers, each.rows, {wide: each.wide, caption: each.title}))),
        path(report, page), light(report), section("Levers", null, levers), ofLog,
        pes(report), configuration(report, folder));
    drawLog(report);
    json("of_log", {run: page.state.run}).then(drawLog, (error) => notes.append(note(error.message)));
    json("levers", {run: page.state.run}).then(
        (found) => levers.replaceChildren(...chances(found, folder)),
        (error) => levers.replaceChildren(note(error.message)));
}

function figures(report, model) {
    const verdict = {null: "not verified", true: report.by_sample ? "ok, by sample" : "ok", false: "FAILED"}[report.verified];
    const found = [
        ["latency of the kernels", duration(report.latency_ps)],
        report.total_ps === report.latency_ps ? null : ["from call to answer", duration(report.total_ps)],
        ...model,
        report.flops ? ["achieved", quantity(report.achieved_flops, "FLOP/s")] : null,
        report.speed_of_light ? ["speed of light", report.speed_of_light] : null,
        ["numbers", h("span", {class: report.verified === false ? "bad" : null}, verdict)],
    ];
    return h("dl", {class: "figures"}, found.filter((each) => each).map(([name, text]) =>
        h("div", null, h("dt", null, name), h("dd", null, text))));
}

function ofLine(report, page) {
    const found = report.lines.find((each) => each.line === page.state.line);
    if (!found) return note(`${page.state.line} has no time on the path, and no command.`);
    const rows = Object.entries(found.blocks).map(([block, ps]) =>
        [block, bar(["path", ps / report.total_ps]), percent(ps / report.total_ps), duration(ps)]);
    return section(found.line, `${found.text} - ${percent(found.share)} of the time, ${duration(found.ps)} on the path.`,
        table(["block", "", "share", "time"], rows, {text: 2}));
}

function line(text, page) {
    return text ? h("a", {href: page.link({view: "source", line: text})}, text) : "-";
}

function path(report, page) {
    let kept = report.path.slice(0, MOST).filter((each) => each.share >= LEAST);
    if (report.path.length - kept.length < 2) kept = report.path;
    const rest = report.path.slice(kept.length);
    const sum = (field) => rest.reduce((total, each) => total + each[field], 0);
    const rows = kept.map((each) => [each.block, each.what, bar(["path", each.share]), percent(each.share),
        duration(each.ps), [line(each.line, page), each.line && each.line_ps !== each.ps ? ` (${percent(each.line_ps / each.ps)})` : ""]]);
    if (rest.length) rows.push([`${rest.length} more`, "", bar(["path", sum("share")]), percent(sum("share")), duration(sum("ps")), ""]);
    return section("Where the time went",
        `Every picosecond from the host's call to its last answer (${duration(report.total_ps)}) has one row.`,
        table(["block", "what", "", "share", "time", "costliest line"], rows, {text: 3, wide: [5]}));
}

function light(report) {
    const rows = report.blocks.map((each) => {
        const hidden = each.busy_ps ? each.hidden_ps / each.busy_ps : 0;
        const peak = each.of_peak;
        return [each.block, peak === null ? bar() : bar(["path", peak * (1 - hidden)], ["hidden", peak * hidden]),
            peak === null ? "-" : percent(peak), percent(each.share), each.busy_ps ? percent(hidden) : "-"];
    });
    return section("Speed of light",
        "How much of the time of the kernels all blocks of a kind were at work: the whole bar is the most they can.",
        h("p", {class: "soft key"}, h("span", null, h("i", {class: "path"}), "work that others wait for"),
            h("span", null, h("i", {class: "hidden"}), "work hidden behind other work, which costs nothing")),
        table(["block", "", "of its peak", "on the path", "of its work hidden"], rows, {text: 2}));
}

function chances({latency_ps: latency, levers}, folder) {
    if (!levers.length) return [h("p", null, "No value of the chip has 2 % of the critical path.")];
    const rows = levers.map((each) => [each.name, bar(["path", each.share]), percent(each.share), duration(each.bound_ps),
        latency ? signed(each.bound_ps / latency - 1) : "-", each.latency_ps === null ? "-" : duration(each.latency_ps),
        each.gain === null ? "-" : signed(-each.gain)]);
    return [
        h("p", {class: "soft"}, "Bounds, which follow from the path as long as services keep their order, and measurements of the run folder. ",
            "A page runs nothing: ", h("code", null, `kb report ${folder} --levers ${levers.length}`), " measures them."),
        table(["better value", "", "of the path", "latency at best", "change", "measured", "change"], rows, {text: 2}),
    ];
}

function lines(report, page) {
    const rows = report.lines.slice(0, MOST).map((each) => [each.line ? line(each.line, page) : "no line",
        bar(["path", each.share]), percent(each.share), duration(each.ps),
        each.in_flight_ps ? duration(each.in_flight_ps) : "-", h("code", null, each.text)]);
    const more = report.lines.length > MOST ? `; the view Source has all ${report.lines.length}` : "";
    return section("Lines", `Times on the path add up; times in flight overlap${more}.`,
        table(["line", "", "share", "on the path", "in flight", "source"], rows, {text: 2, wide: [5]}));
}

function tiles(report, page) {
    if (!report.chosen_tiles) return null;
    const rows = report.chosen_tiles.map((each) => [line(each.line, page), each.tile, count(each.commands)]);
    return section("Tiles", "The chip chose these tiles, M x N x K in elements, for GEMMs that leave their tile open.",
        table(["line", "tile", "GEMMs"], rows));
}

function talk(report, page) {
    const {sync_waits: waits, channels} = report;
    if (!waits && !channels) return null;
    const longest = (each) => each.longest_ps ? [duration(each.longest_ps), each.pe, each.other] : ["-", "-", "-"];
    const waiting = (waits ?? []).slice(0, MOST).map((each) =>
        [line(each.line, page), each.reason, count(each.count), duration(each.waited_ps), ...longest(each)]);
    const ways = (channels ?? []).slice(0, MOST).map((each) => [`${each.src} -> ${each.dst}`, each.tag.replace(/^tag /, ""),
        count(each.channels), count(each.messages), quantity(each.nbytes, "B"), duration(each.mean_ps), duration(each.longest_ps),
        count(each.slots), each.busy_slots.toFixed(2)]);
    return [
        waiting.length ? section("Waits for other PEs", "The times of all PEs are added up, by line and reason.",
            table(["waits for other PEs", "for a", "times", "waited", "longest", "of", "for"], waiting, {text: 2})) : null,
        ways.length ? section("Channels",
            "Channels with equal messages and ways share a row. The way of a message goes from its credit to its doorbell.",
            table(["channel", "tag", "alike", "messages", "bytes", "mean way", "longest way", "slots", "slots busy"], ways, {text: 2}))
            : null,
    ];
}

function pes(report) {
    const rows = report.pes.map((each) => {
        const parts = each.shares.slice(0, PARTS).map((part) => `${part.block}: ${part.what} ${percent(part.share)}`);
        const rest = each.shares.slice(PARTS);
        if (rest.length) parts.push(`${rest.length} more ${percent(rest.reduce((sum, part) => sum + part.share, 0))}`);
        return [folded(each.pes), h("div", {class: "wrap"}, parts.join(", "))];
    });
    return section("PEs", "What each PE's own time went to. PEs whose times are equal stand together.",
        table(["PE", "its time, the largest part first"], rows, {text: 2}));
}

function configuration(report, folder) {
    const pairs = (values) => Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", ");
    const rows = [
        ["parameters", Object.entries(report.params).map(([name, value]) => `${name}=${valueText(value)}`).join(" ")],
        ["seed", String(report.seed)],
        ["topology", `${report.topology}, digest ${report.topology_digest}`],
        ["benchmark", `${report.benchmark}, sha256 ${report.benchmark_sha256}`],
        ["log digest", report.log_digest ?? "-"],
        ["versions", pairs(report.versions)],
        ["environment", pairs(report.environment)],
        ["run folder", folder],
    ];
    return section("Configuration", null, table(["", ""], rows.map(([name, text]) => [name, h("div", {class: "wrap"}, text)]),
        {text: 2, caption: "configuration"}));
}
