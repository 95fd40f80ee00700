// The chip, coloured by how busy its parts were in the window.

import {json} from "/api.js";
import {bar, drawing, h, note, put, section} from "/dom.js";
import {count, exact, percent, quantity} from "/format.js";

export async function show(place, page) {
    const {run, t0, t1, part, shown} = page.state;
    const found = await json("topology", {run, t0, t1, part, shown});
    const views = h("select", {onchange: (event) => page.go({shown: event.target.value, part: null})},
        found.views.map((each) => h("option", {value: each, selected: each === found.view}, each)));
    const input = h("input", {value: found.part, placeholder: "sip0.cube3", "aria-label": "part"});
    put(place,
        h("h1", null, "Topology"),
        h("form", {class: "tools", onsubmit: (event) => {
            event.preventDefault();
            page.go({part: input.value.trim(), shown: null});
        }}, h("label", null, "View ", views), h("label", null, "Part ", input), h("button", null, "Show"),
        t0 === undefined ? h("span", {class: "soft"}, "the whole run; zoom the timeline to choose a window")
            : h("span", {class: "chip"}, `${exact(t0)} to ${exact(t1)}`,
                h("button", {type: "button", title: "the whole run", "aria-label": "show the whole run", onclick: () => page.go({t0: null, t1: null})}, "×"))),
        found.notes.map(note), picture(found.svg), parts(found, page));
}

const LEAST_SCALE = 0.7; // at which the smallest labels can be read; a smaller window moves over the picture

function picture(svg) {
    // The picture brings its own colours, which stay within it.
    const least = LEAST_SCALE * Number(/<svg[^>]* width="([\d.]+)"/.exec(svg)?.[1] ?? 0);
    const host = h("div", {class: "chart chip-picture", tabindex: "0", role: "group", "aria-label": "diagram of the chip; the table below has its numbers"});
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`${/<style>([^<]*)<\/style>/.exec(svg)?.[1] ?? ""} rect.page{width:100%;height:100%} svg{display:block;max-width:max(100%,${least}px);height:auto}`);
    const shadow = host.attachShadow({mode: "open"});
    shadow.adoptedStyleSheets = [sheet];
    shadow.append(drawing(svg.replace(/<style>[^<]*<\/style>/, "")));
    return host;
}

function parts({parts: found, more, is_counted}, page) {
    if (!found.length) return note("No link and no memory moved a byte.");
    const rows = found.map((each) => {
        const users = Object.entries(each.by_pe).map(([pe, nbytes], at) => [at ? ", " : "",
            h("a", {href: page.link({view: "stalls", pe}), title: quantity(nbytes, "B")}, pe), ` ${percent(nbytes / each.nbytes)}`]);
        if (each.users > users.length) users.push(`, and ${count(each.users - users.length)} more`);
        return h("tr", null, h("td", {class: "text"}, each.name), h("td", {class: "text"}, each.share === null ? "" : bar(["path", each.share])),
            h("td", {class: "number"}, each.share === null ? "-" : percent(each.share)), h("td", {class: "number"}, quantity(each.nbytes, "B")),
            h("td", {class: "text"}, h("div", {class: "wrap users"}, users)));
    });
    return section("Links and memories", `${is_counted ? "The share of the time of the launches in which links and memories moved bytes." : "The share of the bandwidth that DMAs used in the window."}${more ? ` ${count(more)} more moved less.` : ""}`,
        h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "links and memories"}, h("table", null,
            h("thead", null, h("tr", null, ["link or memory", "", "used", "bytes", "by"].map((each, at) => h("th", {scope: "col", class: at === 2 || at === 3 ? "number" : "text"}, each)))),
            h("tbody", null, rows))));
}
