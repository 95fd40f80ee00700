// Elements. Every text becomes a text node, so that nothing that a user wrote is read as markup.

import {HEATS, heatStep} from "/palette.js";
import {sortable} from "/sort.js";

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, given, ...children) {
    return filled(document.createElement(tag), given, children);
}

export function s(tag, given, ...children) {
    return filled(document.createElementNS(SVG, tag), given, children);
}

function filled(element, given, children) {
    for (const [name, value] of Object.entries(given ?? {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : value);
    }
    return put(element, ...children);
}

// Appends children, in lists of any depth; those that are null or false are left out.
export function put(element, ...children) {
    element.append(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
    return element;
}

export function bar(...parts) {
    // parts: [class, share from 0 to 1]
    const pieces = parts.filter(([, share]) => share > 0).map(([kind, share]) => {
        const piece = h("i", {class: kind});
        piece.style.width = `${100 * Math.min(share, 1)}%`;
        return piece;
    });
    return h("span", {class: "bar"}, pieces);
}

// A table that sorts by each column that has a name. The first `text` columns and those of `wide` have texts, the others
// numbers. A row is a list of cells, or has attributes beside its `cells`; a row or a cell that is an element stays as it is. `sort` is
// that of `sortable`.
export function table(headers, rows, {text = 1, wide = [], caption, kind: given, sort} = {}) {
    const kind = (at) => (at < text || wide.includes(at) ? "text" : "number");
    const found = h("table", {class: given},
        h("thead", null, h("tr", null, headers.map((each, at) => h("th", {class: kind(at), scope: "col"}, each)))),
        h("tbody", null, rows.map((row) => {
            if (row instanceof HTMLTableRowElement) return row;
            const {cells, ...attributes} = Array.isArray(row) ? {cells: row} : row;
            return h("tr", attributes, cells.map((cell, at) => (cell instanceof HTMLTableCellElement ? cell : h("td", {class: kind(at)}, cell))));
        })));
    return h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? headers.join(", ")}, sortable(found, sort));
}

// The best value of a column, marked so that it needs no colour.
export function best(text, why) {
    return h("span", {class: "best", title: why}, text);
}

export function section(title, text, ...parts) {
    return h("section", null, h("h2", null, title), text ? h("p", {class: "soft"}, text) : null, parts);
}

// The colours of plot.css for a share from 0 (cold) to 1 (hot), which follow light and dark by themselves.
export function heated(element, share) {
    const step = heatStep(share);
    element.style.background = `var(--heat${step})`;
    element.style.color = `var(--on-heat${step})`;
    return element;
}

// What the colours of a heat map mean, from cold to hot.
export function heatKey(cold, middle, hot) {
    const swatches = (first, end) => [...Array(end - first).keys()].map((at) => heated(h("i"), (first + at + 0.5) / HEATS));
    return h("p", {class: "heat-key soft"}, `${cold} `, swatches(0, HEATS / 2), ` ${middle} `, swatches(HEATS / 2, HEATS), ` ${hot}`);
}

export function note(text) {
    return h("p", {class: "note", role: "note"}, text);
}

// A button that puts `text()` on the clipboard.
export function copier(text) {
    const said = h("span", {class: "soft", role: "status"});
    return [h("button", {type: "button", onclick: async () => {
        try {
            await navigator.clipboard.writeText(text());
            said.textContent = " copied";
        } catch (error) {
            said.textContent = ` not copied: ${error.message}`;
        }
    }}, "Copy"), said];
}

const DRAWN = new Set(["svg", "g", "path", "line", "text", "title", "rect", "circle", "defs", "marker", "tspan"]);
const NAMED = new Set([
    "viewBox", "role", "aria-label", "class", "d", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "rx", "cx", "cy",
    "r", "text-anchor", "id", "marker-end", "marker-start", "data-part", "refX", "refY", "orient", "markerWidth", "markerHeight", "fill-opacity", "transform",
]);

export function drawing(markup) {
    // An SVG of the server as elements. What is no drawing is left out, whatever the markup says.
    const text = markup.includes("xmlns=") ? markup : markup.replace("<svg", `<svg xmlns="${SVG}"`);
    return drawn(new DOMParser().parseFromString(text, "image/svg+xml").documentElement);
}

function drawn(node) {
    if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE || !DRAWN.has(node.tagName)) return "";
    const found = document.createElementNS(SVG, node.tagName);
    for (const {name, value} of node.attributes) if (NAMED.has(name)) found.setAttribute(name, value);
    found.append(...[...node.childNodes].map(drawn));
    return found;
}
