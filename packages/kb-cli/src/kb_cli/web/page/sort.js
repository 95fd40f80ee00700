// Tables that sort: a click or Enter on a header sorts by its column, up, then down, then as the table came.

import {h} from "/dom.js";

const PREFIXES = {P: 1e15, T: 1e12, G: 1e9, M: 1e6, k: 1e3, Pi: 2 ** 50, Ti: 2 ** 40, Gi: 2 ** 30, Mi: 2 ** 20, Ki: 2 ** 10};
const TIMES = {s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9, ps: 1e-12, min: 60, h: 3600};
const byText = new Intl.Collator("en", {numeric: true}).compare;

// The number that a text begins with, in the unit behind it, so that 5.3 us is less than 1 ms; null where none does.
export function valueOf(text) {
    const found = /^[^\d+-]{0,2}([+-]?[\d,]*\.?\d+)(?: ?([A-Za-z/]+))?/.exec(text.trim());
    if (!found) return null;
    const value = Number(found[1].replaceAll(",", ""));
    const unit = found[2] ?? "";
    if (Object.hasOwn(TIMES, unit)) return value * TIMES[unit];
    const prefix = /^([PTGMK]i|[PTGMk])(?=[A-Z])/.exec(unit)?.[1];
    return prefix ? value * PREFIXES[prefix] : value;
}

function keyOf(row, at, isNumber) {
    const cell = row.cells[at];
    const text = cell?.dataset.sort ?? cell?.textContent ?? "";
    return isNumber ? valueOf(text) : text.trim() || null;
}

// Rows in the order of column `at`. Rows without a value stand behind the others, whichever way the table sorts.
function ordered(rows, at, isNumber, isDown) {
    const keyed = rows.map((row) => [keyOf(row, at, isNumber), row]);
    const [valued, others] = [keyed.filter(([key]) => key !== null), keyed.filter(([key]) => key === null)];
    valued.sort(([a], [b]) => (isNumber ? a - b : byText(a, b)) * (isDown ? -1 : 1));
    return [...valued, ...others].map(([, row]) => row);
}

// The rows of a table with the parts behind each. `came` has the order in which rows came, also those that came later.
function partsOf(body, came) {
    const parts = new Map();
    let above = null;
    for (const row of body.rows) {
        if (!came.has(row)) came.set(row, came.size);
        if (row.classList.contains("part") && above) parts.get(above).push(row);
        else parts.set(above = row, []);
    }
    return parts;
}

// Makes all tables of `place` sort that do not yet, and have a row of names. Listings of source have an order of their own.
export function sortAll(place) {
    for (const table of place.querySelectorAll("table:not(.listing)")) {
        if (table.tHead?.rows.length === 1 && table.tBodies.length && !table.tHead.querySelector("button")) sortable(table);
    }
}

// Makes `table` sort. `now` is the header it is sorted by, with "-" in front for downwards; `told` hears of changes.
// A row of the class "part" stays behind the row above it.
export function sortable(table, {now = "", told = () => {}} = {}) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    if (body.rows.length < 2) return table;
    const came = new Map();
    const draw = (at, isDown) => {
        const parts = partsOf(body, came);
        const whole = [...parts.keys()].sort((a, b) => came.get(a) - came.get(b));
        const isNumber = at >= 0 && heads[at].classList.contains("number");
        const rows = at < 0 ? whole : ordered(whole, at, isNumber, isDown);
        body.append(...rows.flatMap((row) => [row, ...parts.get(row)]));
        heads.forEach((head, each) => {
            if (each === at) head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
            else head.removeAttribute("aria-sort");
        });
    };
    heads.forEach((head, at) => {
        const name = head.textContent;
        if (!name) return; // a column of bars
        const turn = () => {
            const before = head.getAttribute("aria-sort");
            if (before === "descending") draw(-1);
            else draw(at, before === "ascending");
            told(before === "descending" ? "" : `${before ? "-" : ""}${name}`);
        };
        head.replaceChildren(h("button", {type: "button", class: "sort", title: `sort by ${name}`, onclick: turn}, name));
    });
    const at = heads.findIndex((head) => head.textContent === now.replace(/^-/, ""));
    if (now && at >= 0) draw(at, now.startsWith("-"));
    return table;
}
