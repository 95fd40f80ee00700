// The chip, coloured by how busy its parts were in the window. A click on a box opens the part.

import {json} from "/api.js";
import {bar, drawing, h, note, put, section} from "/dom.js";
import {count, exact, percent, quantity} from "/format.js";
import {sortAll} from "/sort.js";

const EVERY = {system: "the whole system", sip: "all SIPs as one", cube: "all cubes as one", pe: "all PEs as one"};
const LEAST_SCALE = 0.7; // at which the smallest labels can be read
const FEW = 0.1; // of the bytes: PEs below it are counted and not named

export async function show(place, page) {
    const {run, t0, t1, part, shown} = page.state;
    const asked = {run, t0, t1, part, shown};
    const found = await json("topology", {...asked, users: "later"});
    const table = parts(found, page);
    const hint = h("p", {class: "soft fits", hidden: true});
    put(place,
        h("h1", null, "Topology"),
        h("div", {class: "tools"}, way(found, page), beside(found, page), views(found, page),
            t0 === undefined ? h("span", {class: "soft"}, "the whole run; zoom the timeline to choose a window")
                : h("span", {class: "chip"}, `${exact(t0)} to ${exact(t1)}`,
                    h("button", {type: "button", title: "the whole run", "aria-label": "show the whole run", onclick: () => page.go({t0: null, t1: null})}, "×"))),
        why(found, page), found.notes.map(note),
        h("div", {class: "chip-and-parts"}, h("div", null, hint, picture(found.svg, page, hint)), table));
    if (found.has_users) return undefined;
    const left = new AbortController();
    json("topology", asked, left.signal).then((whole) => {
        const named = parts(whole, page);
        table.replaceWith(named);
        sortAll(named);
        place.querySelector(".chip-and-parts")?.before(...whole.notes.map(note));
    }, (error) => {
        if (error.name !== "AbortError") table.append(note(error.message));
    });
    return () => left.abort();
}

function why({why: top}, page) {
    if (!top) return null;
    const others = top.others === 1 ? "; one more is about as hot" : top.others ? `; ${count(top.others)} more are about as hot` : "";
    return h("p", null, "Most used: ", h("a", {href: opens(top, page)}, top.name), `, ${percent(top.share)}${others}.`);
}

function opens({part}, page) {
    return page.link({part: part || null, shown: part ? null : "system"});
}

// The way from the chip down to the part; each step is a link to its picture.
function way({crumbs}, page) {
    const steps = crumbs.map((each, at) => [at ? h("span", {class: "soft", "aria-hidden": "true"}, " › ") : null,
        at === crumbs.length - 1 ? h("b", {"aria-current": "location"}, each.name)
            : h("a", {href: page.link({part: each.part || null, shown: each.part ? null : each.shown})}, each.name)]);
    return h("div", {class: "way", role: "navigation", "aria-label": "parts of the chip"}, steps);
}

function beside({siblings, part}, page) {
    if (siblings.length < 2) return null;
    const options = siblings.map((each) => h("option", {value: each, selected: each === part}, each.split(".").at(-1)));
    return h("label", null, "beside it ", h("select", {onchange: (event) => page.go({part: event.target.value, shown: null})}, options));
}

function views({views: known, view, part}, page) {
    const one = part ? [h("option", {value: "", selected: true}, part)] : [];
    const options = known.map((each) => h("option", {value: each, selected: !part && each === view}, EVERY[each]));
    return h("label", null, "shows ", h("select", {onchange: (event) => page.go({shown: event.target.value || null, part: event.target.value ? null : part})}, one, options));
}

function picture(svg, page, hint) {
    // The picture brings its own colours, which stay within it.
    const width = Number(/<svg[^>]* width="([\d.]+)"/.exec(svg)?.[1] ?? 0);
    const host = h("div", {class: "chart chip-picture", tabindex: "0", role: "group", "aria-label": "diagram of the chip; the table below has its numbers"});
    const sheet = new CSSStyleSheet();
    const sized = (least) => sheet.replaceSync(`${/<style>([^<]*)<\/style>/.exec(svg)?.[1] ?? ""} rect.page{width:100%;height:100%}
        svg{display:block;max-width:max(100%,${least}px);height:auto} a{cursor:pointer} a:hover rect{stroke-width:3px} a:focus-visible rect{stroke-width:4px}`);
    sized(LEAST_SCALE * width);
    const shadow = host.attachShadow({mode: "open"});
    shadow.adoptedStyleSheets = [sheet];
    shadow.append(drawing(svg.replace(/<style>[^<]*<\/style>/, "")));
    for (const box of shadow.querySelectorAll("[data-part]")) {
        const link = document.createElementNS("http://www.w3.org/2000/svg", "a");
        link.setAttribute("href", page.link({part: box.dataset.part, shown: null}));
        link.setAttribute("aria-label", `open ${box.dataset.part}`);
        box.replaceWith(link);
        link.append(box);
    }
    let fits = false;
    const told = () => {
        const room = host.parentElement?.clientWidth ?? 0;
        hint.hidden = !room || LEAST_SCALE * width <= room;
    };
    const button = h("button", {type: "button", onclick: () => {
        fits = !fits;
        sized(fits ? 0 : LEAST_SCALE * width);
        button.textContent = fits ? "Enlarge the picture" : "Fit the picture into the window";
    }}, "Fit the picture into the window");
    put(hint, button);
    new ResizeObserver(told).observe(host);
    return host;
}

function parts({parts: found, more, is_counted, has_users}, page) {
    if (!found.length) return note("No link and no memory moved a byte.");
    const rows = found.map((each) => h("tr", null,
        h("td", {class: "text"}, h("a", {href: opens(each, page), title: `open ${each.part || "the system"}`}, each.name)),
        h("td", {class: "text"}, each.share === null ? "" : bar(["path", each.share])),
        h("td", {class: "number"}, each.share === null ? "-" : percent(each.share)), h("td", {class: "number"}, quantity(each.nbytes, "B")),
        h("td", {class: "text"}, h("div", {class: "wrap users"}, has_users ? users(each, page) : "..."))));
    return section("Links and memories", `${is_counted ? "The share of the time of the launches in which links and memories moved bytes." : "The share of the bandwidth that DMAs used in the window."}${more ? ` ${count(more)} more moved less.` : ""}`,
        h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "links and memories"}, h("table", {class: "uses"},
            h("thead", null, h("tr", null, ["link or memory", "", "used", "bytes", "by"].map((each, at) => h("th", {scope: "col", class: at === 2 || at === 3 ? "number" : "text"}, each)))),
            h("tbody", null, rows))));
}

// The PEs that moved most of the bytes; of many that each moved few, how many there are.
function users(each, page) {
    const known = Object.entries(each.by_pe).filter(([, nbytes]) => nbytes >= FEW * each.nbytes);
    const named = known.map(([pe, nbytes], at) => [at ? ", " : "",
        h("a", {href: page.link({view: "stalls", pe}), title: quantity(nbytes, "B")}, pe), ` ${percent(nbytes / each.nbytes)}`]);
    const others = each.users - known.length;
    if (!others) return named;
    return [named, known.length ? `, and ${count(others)} more` : `${count(others)} PEs, each below ${percent(FEW)}`];
}
