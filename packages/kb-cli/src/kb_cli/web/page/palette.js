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

// The colours of heat maps are those of plot.css, from cold, which is close to the page, to hot.
export const HEATS = 8;
let heats = null;
dark.addEventListener("change", () => { heats = null; });

// The number of the colour of a share from 0 (cold) to 1 (hot).
export function heatStep(share) {
    return Math.min(Math.max(Math.floor(share * HEATS), 0), HEATS - 1);
}

// The colour of a share, and that of text on it, for a canvas.
export function heat(share) {
    heats ??= [...Array(HEATS).keys()].map((at) => ({fill: style(`--heat${at}`), ink: style(`--on-heat${at}`)}));
    return heats[heatStep(share)];
}
