// The colours of stages and blocks are those of colours.css.

const FREE = [0, 1, 2, 3, 4, 5, 6, 8, 9, 7, 10, 11]; // the colours that texts without one of their own may get
const TURNS = [8, 10];
const dark = matchMedia("(prefers-color-scheme: dark)");

function usual(text) {
    const at = style(`--of-${text}`);
    return at === "" ? undefined : Number(at);
}

// The colours of the kinds of several tables: a text has one colour in all of them, and two texts share a colour only
// where they mean one block, or where there are more texts than colours.
export class Colours {
    constructor() {
        this.given = new Map();
    }

    // The colours of the kinds of one table, of which the last may be "others". Two kinds are one that matters, and the rest.
    of(texts, twoSided) {
        const others = style("--colour-others");
        if (twoSided) return [style("--colour-1"), others];
        for (const text of texts) if (usual(text) !== undefined) this.given.set(text, usual(text));
        return texts.map((text, at) => (text === "others" && at === texts.length - 1 ? others : style(`--colour-${this.own(text)}`)));
    }

    // The colours of ops of a model, which their names tell apart: two that take turns.
    inTurn(texts) {
        return texts.map((text, at) => style(`--colour-${usual(text) ?? TURNS[at % 2]}`));
    }

    own(text) {
        if (!this.given.has(text)) {
            const taken = new Set(this.given.values());
            const free = FREE.filter((each) => !taken.has(each));
            this.given.set(text, free[0] ?? FREE[this.given.size % FREE.length]);
        }
        return this.given.get(text);
    }
}

function luminance(colour) {
    const [r, g, b] = rgb(colour).map((each) => each / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The ink of text on a bar: black or white, whichever has the higher contrast, which is 4.58 at least.
export function inkOn(colour) {
    return (luminance(colour) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff";
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
