// The colours of stages and blocks are those of colours.css.

const INKS = 7;
const dark = matchMedia("(prefers-color-scheme: dark)");

function usual(text) {
    const at = style(`--of-${text}`);
    return at === "" ? undefined : Number(at);
}

function own(texts) {
    const all = [...Array(INKS).keys()];
    const taken = new Set(texts.map(usual).filter((each) => each !== undefined));
    const free = all.filter((at) => !taken.has(at));
    let next = 0;
    return texts.map((text) => usual(text) ?? (free.length ? free[next++ % free.length] : next++ % INKS));
}

// The colours of kinds, of which the last may be "others". Two kinds are one that matters, and the rest.
export function colours(texts, twoSided) {
    const others = style("--colour-others");
    if (twoSided) return [style("--colour-1"), others];
    return own(texts).map((ink, at) => (texts[at] === "others" && at === texts.length - 1 ? others : style(`--colour-${ink}`)));
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
