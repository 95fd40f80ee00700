// Colours that people with any colour vision tell apart, on light and on dark pages.
// Source: Paul Tol, "Colour Schemes", SRON/EPS/TN/09-002 version 3.2, the scheme "bright" with the orange of "vibrant".

const LIGHT = ["#4477aa", "#ee7733", "#228833", "#aa3377", "#33a5c8", "#b8a020", "#d1495b"];
const DARK = ["#6fa3d8", "#f28e4f", "#4fb862", "#d070a8", "#66ccee", "#d9c552", "#f0808c"];
const OTHERS = {light: "#a3abb3", dark: "#5c656e"};
const dark = matchMedia("(prefers-color-scheme: dark)");

// What stages and blocks are always drawn in, so that a block has the colour of its stage.
const USUAL = {gemm: 0, pe_gemm: 0, dma_read: 1, hbm: 1, sram: 1, dma_write: 2, pe_dma: 2, fetch: 3, pe_fetch_store: 3,
    store: 4, links: 4, math: 6, pe_math: 6, pe_scheduler: 5, launch: 5};

function own(texts) {
    const taken = new Set(texts.map((text) => USUAL[text]).filter((each) => each !== undefined));
    const free = LIGHT.map((_, at) => at).filter((at) => !taken.has(at));
    let next = 0;
    return texts.map((text) => USUAL[text] ?? (free.length ? free[next++ % free.length] : next++ % LIGHT.length));
}

// The colours of kinds, of which the last may be "others". Two kinds are one that matters, and the rest.
export function colours(texts, twoSided) {
    const inks = dark.matches ? DARK : LIGHT;
    const others = dark.matches ? OTHERS.dark : OTHERS.light;
    if (twoSided) return [inks[1], others];
    return own(texts).map((ink, at) => (texts[at] === "others" && at === texts.length - 1 ? others : inks[ink]));
}

export function rgb(colour) {
    return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

export function style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function onChange(told) {
    dark.addEventListener("change", told);
    return () => dark.removeEventListener("change", told);
}

// From cold, which is close to the page, to hot. They are those of kb_topology.diagram.drawn.heat_colours.
const HEAT = {
    light: ["#f0dfbb", "#e7c48b", "#e0a963", "#d88f3c", "#d27507", "#c26005", "#b34c01", "#a43700"],
    dark: ["#40311b", "#5c3e15", "#774912", "#935513", "#b1611a", "#d06e28", "#f17b3a", "#fe966d"],
};
const ON_HEAT = {
    light: ["#0b0d10", "#0b0d10", "#0b0d10", "#0b0d10", "#0b0d10", "#0b0d10", "#ffffff", "#ffffff"],
    dark: ["#ffffff", "#ffffff", "#ffffff", "#ffffff", "#ffffff", "#0b0d10", "#0b0d10", "#0b0d10"],
};

// The colour of a share from 0 (cold) to 1 (hot), and that of text on it.
export function heat(share) {
    const page = dark.matches ? "dark" : "light";
    const step = Math.min(Math.max(Math.floor(share * HEAT.light.length), 0), HEAT.light.length - 1);
    return {fill: HEAT[page][step], ink: ON_HEAT[page][step]};
}
