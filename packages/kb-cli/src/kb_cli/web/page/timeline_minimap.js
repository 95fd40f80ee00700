// The whole run above the timeline, with the window in it: what a drag there does, and how it is drawn.

import {bars} from "/timeline_bars.js";

export const MAP = 28;
const EDGE = 6; // pixels beside an end of the window in which a drag moves that end
const LEAST = 3; // pixels of a window that is drawn

export function drawMap(drawing, {bounds, view, map}) {
    const {context: to, names, width} = drawing;
    const {rule, panel, page, ink} = drawing.ink;
    to.fillStyle = panel;
    to.fillRect(0, 0, width, MAP);
    if (map) bars(drawing, map.found, 4, MAP - 9, bounds, map.kinds);
    const [left, right] = ends(drawing, bounds, view);
    to.globalAlpha = 0.66;
    to.fillStyle = page;
    to.fillRect(names, 0, left - names, MAP - 1);
    to.fillRect(right, 0, width - right, MAP - 1);
    to.globalAlpha = 1;
    to.strokeStyle = ink;
    to.lineWidth = 1;
    to.strokeRect(left + 0.5, 1.5, Math.max(right - left, LEAST) - 1, MAP - 4);
    to.fillStyle = rule;
    to.fillRect(0, MAP - 1, width, 1);
    drawing.name("whole run", 8, MAP / 2, drawing.ink.soft);
}

function ends(drawing, bounds, view) {
    return [drawing.x(view.t0, bounds), drawing.x(view.t1, bounds)];
}

// What a drag that begins at `x` moves: an end of the window, the window, or a new window.
export function dragMap(drawing, bounds, view, x) {
    const [left, right] = ends(drawing, bounds, view);
    const isWhole = view.t0 <= bounds.t0 && view.t1 >= bounds.t1;
    const begin = drawing.t(x, bounds);
    const span = (a, b) => ({t0: Math.min(a, b), t1: Math.max(a, b)});
    const width = view.t1 - view.t0;
    if (!isWhole && Math.abs(x - left) <= EDGE) return (t) => span(t, view.t1);
    if (!isWhole && Math.abs(x - right) <= EDGE) return (t) => span(view.t0, t);
    if (!isWhole && x > left && x < right) return (t) => ({t0: view.t0 + t - begin, t1: view.t1 + t - begin});
    return (t, moved) => (moved ? span(begin, t) : {t0: t - width / 2, t1: t + width / 2});
}
