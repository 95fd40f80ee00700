// Draws one lane of the timeline: its slices with their names, or the heat of each pixel.

import {inkOn} from "/palette.js";

const LABEL = 30; // a slice narrower than this has no label
const LABEL_HIGH = 12;

// `drawing` is the picture, in which `x` places a time, and `texts` measures texts.
export function bars(drawing, found, y, height, view, kinds) {
    const {context: to} = drawing;
    to.save();
    to.beginPath();
    to.rect(drawing.names, y, drawing.width - drawing.names, height);
    to.clip();
    if (found.cover) heat(drawing, found, y, height, view);
    else slices(drawing, found, y, height, view, kinds);
    to.restore();
}

function heat(drawing, found, y, height, view) {
    if (!found.sheet) return;
    const {context: to} = drawing;
    to.imageSmoothingEnabled = false;
    const [x0, x1] = [drawing.x(found.from, view), drawing.x(found.until, view)];
    to.drawImage(found.sheet, 0, found.line, found.pixels, 1, x0, y, x1 - x0, height);
}

function slices(drawing, found, y, height, view, {palette}) {
    const {context: to} = drawing;
    for (let at = 0; at < found.slices; at++) {
        if (found.end[at] < view.t0 || found.start[at] > view.t1) continue;
        const left = Math.max(drawing.x(found.start[at], view), drawing.names - 1);
        const right = Math.min(drawing.x(found.end[at], view), drawing.width + 1);
        const width = Math.max(right - left, 1);
        const colour = palette[found.kind[at]];
        to.fillStyle = colour;
        to.fillRect(left, y, width > 3 ? width - 0.7 : width, height);
        if (height < LABEL_HIGH || width < LABEL) continue;
        const shown = drawing.fitting(found.names[found.name[at]] ?? "", width - 8);
        if (!shown) continue;
        to.fillStyle = inkOn(colour);
        to.fillText(shown, left + 4, y + height / 2 + 0.5);
    }
}

// Frames the slice from t0 to t1.
export function frame(drawing, {t0, t1}, y, height, view) {
    const {context: to} = drawing;
    const [left, right] = [Math.max(drawing.x(t0, view), drawing.names), Math.min(drawing.x(t1, view), drawing.width)];
    if (right < drawing.names || left > drawing.width) return;
    to.strokeStyle = drawing.ink.ink;
    to.lineWidth = 2;
    to.strokeRect(left - 1, y - 1, Math.max(right - left, 1) + 2, height + 2);
}
