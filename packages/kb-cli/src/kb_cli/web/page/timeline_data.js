// What lanes show: asked for windows somewhat wider than the visible one, the latest question first.

import {Refused, bytes} from "/api.js";
import {Colours, rgb} from "/palette.js";

const BESIDE = 0.3; // of the window, on both sides, so that small steps need no answer
const AGAIN_MS = 3000; // before a question is asked again that had no answer
const ON_PATH = new Set(["ops", "ops.folded", "memories", "memories.folded", "path"]); // whose colours tell what is on the path
const FAINTEST = 0.2; // the opacity of coverage that is next to none

// The answer of /api/window, whose form its Python module tells.
export function unpacked(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let at = 4 + length;
    const take = (Kind, count) => {
        const found = new Kind(buffer.slice(at, at + count * Kind.BYTES_PER_ELEMENT));
        at += count * Kind.BYTES_PER_ELEMENT;
        return found;
    };
    for (const part of head.parts) {
        if (part.slices === null) {
            part.cover = take(Uint8Array, head.pixels);
            part.kind = take(Uint8Array, part.kinds);
        } else {
            part.start = take(Float64Array, part.slices);
            part.end = take(Float64Array, part.slices);
            part.row = take(Int32Array, part.slices);
            part.name = take(Int32Array, part.slices);
            part.kind = take(Uint8Array, part.slices);
        }
    }
    return head;
}

// All lanes of an answer as one picture, a pixel high each.
function picture(head, palette) {
    const covered = head.parts.filter((part) => part.cover);
    if (!covered.length) return;
    const sheet = document.createElement("canvas");
    [sheet.width, sheet.height] = [head.pixels, covered.length];
    const context = sheet.getContext("2d");
    const image = context.createImageData(head.pixels, covered.length);
    const inks = palette.map(rgb);
    covered.forEach((part, line) => {
        let to = line * head.pixels * 4;
        for (let pixel = 0; pixel < head.pixels; pixel++, to += 4) {
            const cover = part.cover[pixel];
            if (!cover) continue;
            const ink = inks[part.kinds === 1 ? part.kind[0] : part.kind[pixel]];
            image.data[to] = ink[0];
            image.data[to + 1] = ink[1];
            image.data[to + 2] = ink[2];
            image.data[to + 3] = 255 * (FAINTEST + (1 - FAINTEST) * cover / 255);
        }
        [part.sheet, part.line] = [sheet, line];
    });
    context.putImageData(image, 0, 0);
}

export class Windows {
    // `told(error)` is called when something new can be drawn, or could not be had.
    constructor(told) {
        this.told = told;
        this.colours = new Colours();
        this.of = {}; // by table: what its colours need, and the window of each lane
        this.asking = new Map();
        this.refused = new Map(); // by table: the question that had no answer, and when it was asked
    }

    forget() {
        this.of = {};
        this.colours = new Colours();
        for (const each of this.asking.values()) each.stop.abort();
        this.asking.clear();
        this.refused.clear();
    }

    get(table, lane) {
        return this.of[table]?.lanes.get(lane);
    }

    kinds(table) {
        return this.of[table] ?? {texts: [], palette: []};
    }

    // Sees to it that `lanes` of `table` are there for the view, `{t0, t1, pixels}`. `fields` say how to colour.
    need(table, lanes, view, fields, bounds) {
        if (!lanes.length) return;
        const width = view.t1 - view.t0;
        const fits = (found) => found && found.t0 <= view.t0 && found.t1 >= view.t1 && found.span <= width * (1 + 2 * BESIDE) * 1.5;
        const missing = lanes.filter((lane) => !fits(this.get(table, lane)));
        if (!missing.length) return;
        const before = this.asking.get(table);
        const key = JSON.stringify([view, fields, missing]);
        if (before?.key === key) return;
        const refused = this.refused.get(table);
        if (refused && (refused.isFinal || Date.now() - refused.asked < AGAIN_MS)) return;
        before?.stop.abort();
        const stop = new AbortController();
        this.asking.set(table, {key, stop});
        const t0 = Math.max(Math.floor(view.t0 - width * BESIDE), bounds.t0);
        const t1 = Math.max(Math.min(Math.ceil(view.t1 + width * BESIDE), bounds.t1), t0 + 1);
        const pixels = Math.max(1, Math.min(4096, Math.round(view.pixels * (t1 - t0) / width)));
        bytes("window", {...fields, table, lanes: lanes.join(","), t0, t1, pixels}, stop.signal).then((buffer) => {
            this.take(table, unpacked(buffer), fields, view, bounds);
            this.refused.delete(table);
            this.told(null);
        }).catch((error) => {
            if (error.name === "AbortError") return;
            const told = error instanceof Refused ? error : new Refused(String(error), 0);
            this.refused.set(table, {asked: Date.now(), isFinal: told.status !== 0});
            if (told.status === 0) setTimeout(() => this.told(told), AGAIN_MS);
            this.told(told);
        }).finally(() => {
            if (this.asking.get(table)?.stop === stop) this.asking.delete(table);
        });
    }

    take(table, head, fields, view, bounds) {
        const twoSided = table.startsWith("links") ? false : fields.line !== undefined || fields.colour === "path" && ON_PATH.has(table);
        const palette = table === "launches" && !twoSided ? this.colours.inTurn(head.texts) : this.colours.of(head.texts, twoSided);
        picture(head, palette);
        const kept = this.of[table]?.lanes ?? new Map();
        this.of[table] = {texts: head.texts, palette, lanes: kept};
        // at the ends of the run there is nothing beside the window
        const t0 = head.t0_ps <= bounds.t0 ? -Infinity : head.t0_ps;
        const t1 = head.t1_ps >= bounds.t1 ? Infinity : head.t1_ps;
        for (const part of head.parts) {
            kept.set(part.lane, {...part, names: head.names, t0, t1, from: head.t0_ps, until: head.t1_ps, pixels: head.pixels,
                span: part.cover ? head.t1_ps - head.t0_ps : 0});
        }
    }
}
