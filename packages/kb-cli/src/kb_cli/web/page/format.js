// Numbers as text with their unit, as kb prints them.

const TIMES = [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3]];

export function duration(ps) {
    for (const [unit, size] of TIMES) if (Math.abs(ps) >= size) return `${(ps / size).toFixed(3)} ${unit}`;
    return `${ps.toFixed(0)} ps`;
}

export function exact(ps) {
    // Every picosecond: 12,345.678 ns.
    const [sign, whole] = [ps < 0 ? "-" : "", Math.abs(Math.round(ps))];
    return `${sign}${Math.floor(whole / 1000).toLocaleString("en")}.${String(whole % 1000).padStart(3, "0")} ns`;
}

export function percent(share) {
    return `${(share * 100).toFixed(1)} %`;
}

export function signed(share) {
    const text = percent(Math.abs(share));
    return text === percent(0) ? text : `${share > 0 ? "+" : "-"}${text}`;
}

export function quantity(value, unit) {
    for (const [prefix, size] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
        if (Math.abs(value) >= size) return `${digits(value / size)} ${prefix}${unit}`;
    return `${digits(value)} ${unit}`;
}

function digits(value) {
    return String(Number(value.toPrecision(4)));
}

export function count(value) {
    return value.toLocaleString("en");
}

// A value of a configuration as -p takes it; lists and dicts are JSON.
export function valueText(value) {
    return value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
}

export function folded(ids) {
    return ids.length < 3 ? ids.join(" and ") : `${ids.length} PEs alike, ${ids[0]} to ${ids.at(-1)}`;
}

export function seconds(value) {
    if (value < 90) return `${Math.round(value)} s`;
    if (value < 5400) return `${Math.round(value / 60)} min`;
    return `${Math.round(value / 3600)} h`;
}

// Ticks of an axis from t0 to t1: 1, 2 or 5 times a power of ten, about `wanted` of them.
export function ticks(t0, t1, wanted) {
    const rough = Math.max((t1 - t0) / Math.max(wanted, 1), 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const found = [];
    for (let at = Math.ceil(t0 / step) * step; at <= t1; at += step) found.push(at);
    return {step, found};
}

// Makes texts of times up to `most` in one unit, with as many digits as tell `step` ps apart.
export function scale(most, step) {
    const [unit, size] = TIMES.find(([, each]) => most >= each) ?? ["ps", 1];
    const digits = Math.min(Math.max(Math.ceil(Math.log10(size / step) - 1e-9), 0), Math.round(Math.log10(size)));
    return (ps) => `${(ps / size).toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits})} ${unit}`;
}

// The same for the ends of a window `width` ps long: a thousandth of it and of the unit can be told.
export function scaleOf(most, width) {
    const [, size] = TIMES.find(([, each]) => most >= each) ?? ["ps", 1];
    return scale(most, Math.min(width, size) / 1000);
}
