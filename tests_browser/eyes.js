// What a reader could not read on this page. `eyes.watch()` runs before the page's own scripts, `eyes.see()` when the page is there.

globalThis.eyes ??= (() => {
    const TOUCH = 1.5; // pixels by which boxes may overlap: a box of text is larger than its letters
    const LEAST_CONTRAST = 4.5; // Source: W3C, WCAG 2.2, success criterion 1.4.3
    const LEAST_SIZE = 7.5; // pixels of a font, as shown. Source: assumed; five pixels of a small letter
    const LEAST_LETTERS = 20; // of a view that says something. Source: assumed, below the shortest view that does
    const drawn = new WeakMap(); // by context: the texts on its canvas, and where it may draw

    // ---- boxes: [left, top, right, bottom] in pixels of the window

    const boxOf = ({left, top, right, bottom}) => [left, top, right, bottom];
    const meet = (a, b) => [Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3])];
    const wide = (box) => box[2] - box[0];
    const tall = (box) => box[3] - box[1];
    const isEmpty = (box) => wide(box) <= 0 || tall(box) <= 0;
    const middle = (box) => [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    const holds = (box, [x, y]) => x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3];

    function letters(box) { // without the room above and below letters, along the short side
        const by = 0.17 * Math.min(wide(box), tall(box));
        return wide(box) > tall(box) ? [box[0], box[1] + by, box[2], box[3] - by] : [box[0] + by, box[1], box[2] - by, box[3]];
    }

    // ---- canvases: a canvas forgets its texts, so they are kept when they are drawn

    function of(context) {
        if (!drawn.has(context)) drawn.set(context, {texts: [], clip: null, clips: [], path: null});
        return drawn.get(context);
    }

    function placed(context, x0, y0, x1, y1) { // in pixels of the canvas
        const {a, d, e, f} = context.getTransform();
        return [Math.min(a * x0, a * x1) + e, Math.min(d * y0, d * y1) + f, Math.max(a * x0, a * x1) + e, Math.max(d * y0, d * y1) + f];
    }

    function watch() {
        const made = CanvasRenderingContext2D.prototype;
        const before = (name, task) => {
            const whole = made[name];
            made[name] = function (...given) {
                task.call(this, of(this), ...given);
                return whole.apply(this, given);
            };
        };
        before("fillText", function (kept, text, x, y) {
            const {actualBoundingBoxLeft: l, actualBoundingBoxRight: r, actualBoundingBoxAscent: a, actualBoundingBoxDescent: d} = this.measureText(text);
            const box = placed(this, x - l, y - a, x + r, y + d);
            const turned = Math.abs(this.getTransform().b) > 1e-6;
            const seen = kept.clip ? meet(box, kept.clip) : box;
            if (!turned && String(text).trim() && !isEmpty(seen)) kept.texts.push({text: String(text), box, clip: kept.clip, ink: this.fillStyle, alpha: this.globalAlpha});
        });
        const hide = function (kept, x, y, width, height) {
            const box = placed(this, x, y, x + width, y + height);
            kept.texts = kept.texts.filter((each) => !holds(box, middle(kept.clip ? meet(each.box, each.clip ?? each.box) : each.box)));
        };
        before("clearRect", hide);
        before("fillRect", function (kept, ...box) {
            if (this.globalAlpha > 0.9 && typeof this.fillStyle === "string" && this.fillStyle.startsWith("#")) hide.call(this, kept, ...box);
        });
        before("beginPath", (kept) => { kept.path = null; });
        before("rect", function (kept, x, y, width, height) { kept.path = placed(this, x, y, x + width, y + height); });
        before("clip", (kept) => { if (kept.path) kept.clip = kept.clip ? meet(kept.clip, kept.path) : kept.path; });
        before("save", (kept) => { kept.clips.push(kept.clip); });
        before("restore", (kept) => { if (kept.clips.length) kept.clip = kept.clips.pop(); });
        for (const side of ["width", "height"]) { // a canvas that gets a size is empty
            const {get, set} = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
            Object.defineProperty(HTMLCanvasElement.prototype, side, {get, set(value) {
                const kept = drawn.get(this.getContext("2d"));
                if (kept) Object.assign(kept, {texts: [], clip: null, clips: [], path: null});
                set.call(this, value);
            }});
        }
    }

    // ---- colours: [red, green, blue, alpha]

    const probe = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const copy = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const colours = new Map();

    function colour(text) {
        if (!colours.has(text)) {
            probe.clearRect(0, 0, 1, 1);
            probe.fillStyle = "#000";
            probe.fillStyle = text;
            probe.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
            colours.set(text, [r, g, b, a / 255]);
        }
        return colours.get(text);
    }

    function pixelsOf(canvas) { // of a copy, because reading the canvas itself makes it slow
        Object.assign(copy.canvas, {width: canvas.width, height: canvas.height});
        copy.drawImage(canvas, 0, 0);
        return copy.getImageData(0, 0, canvas.width, canvas.height);
    }

    const over = ([r, g, b, a], below) => [...[r, g, b].map((each, at) => each * a + below[at] * (1 - a)), 1];

    function luminance(ink) {
        const [r, g, b] = ink.map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }

    function contrast(a, b) {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    }

    const follows = (one, other) => Boolean(one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);

    const parentOf = (element) => element.assignedSlot ?? element.parentElement ?? element.getRootNode().host ?? null;

    function* upwards(element) {
        for (let each = element; each; each = parentOf(each)) yield each;
    }

    const styles = new Map();

    function style(element) {
        if (!styles.has(element)) styles.set(element, getComputedStyle(element));
        return styles.get(element);
    }

    const isShape = (element) => element instanceof SVGGeometryElement;

    function opacity(element, until = null) {
        let found = 1;
        for (const each of upwards(element)) {
            if (each === until) break;
            found *= Number(style(each).opacity);
        }
        return found;
    }

    // What is behind a text: areas of its drawing, then backgrounds of what holds the text.
    function behind(element, at) {
        const layers = [];
        let below = element;
        const drawing = element instanceof SVGElement ? outermost(element) : null;
        if (drawing) {
            for (const shape of areas(drawing)) {
                if (follows(shape.element, element) && covers(shape, at)) layers.unshift(shape.ink);
            }
            below = drawing;
        }
        for (const each of upwards(below)) {
            const [r, g, b, a] = colour(style(each).backgroundColor);
            if (a > 0) layers.push([r, g, b, a]);
            if (a === 1) break;
        }
        const canvas = matchMedia("(prefers-color-scheme: dark)").matches && style(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18, 1] : [255, 255, 255, 1];
        return layers.reduceRight((under, each) => over(each, under), canvas);
    }

    function outermost(element) {
        let found = null;
        for (const each of upwards(element)) if (each instanceof SVGSVGElement) found = each;
        return found;
    }

    const drawings = new Map();

    function areas(drawing) {
        if (!drawings.has(drawing)) {
            drawings.set(drawing, [...drawing.querySelectorAll("rect, path, circle, ellipse, polygon")].flatMap((element) => {
                if (element.closest("defs, marker, clipPath, pattern") || !element.checkVisibility({visibilityProperty: true})) return [];
                const [r, g, b, a] = style(element).fill === "none" ? [0, 0, 0, 0] : colour(style(element).fill);
                const strength = a * Number(style(element).fillOpacity) * opacity(element, drawing);
                return strength > 0 ? [{element, ink: [r, g, b, strength], box: boxOf(element.getBoundingClientRect())}] : [];
            }));
        }
        return drawings.get(drawing);
    }

    function covers({element, box}, at) {
        if (!holds(box, at)) return false;
        if (element instanceof SVGRectElement) return true;
        const inverse = element.getScreenCTM()?.inverse();
        return Boolean(inverse) && element.isPointInFill(new DOMPoint(...at).matrixTransform(inverse));
    }

    // ---- texts: of elements, of drawings, on canvases

    function* nodes(root) {
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
        for (let each = walker.currentNode; each; each = walker.nextNode()) {
            if (each.nodeType === Node.TEXT_NODE) yield each;
            else if (each.shadowRoot) yield* nodes(each.shadowRoot);
            else if (each instanceof HTMLCanvasElement) yield each;
        }
    }

    function texts() {
        const found = [];
        for (const node of nodes(document.documentElement)) {
            if (node instanceof HTMLCanvasElement) found.push(...onCanvas(node));
            else found.push(...inElement(node));
        }
        return found;
    }

    const UNSEEN = "style, script, title, noscript, option, defs, [disabled], desc, metadata";

    function inElement(node) {
        const element = node.parentElement ?? node.getRootNode().host;
        if (!node.data.trim() || element.closest(UNSEEN) || !element.checkVisibility({visibilityProperty: true, opacityProperty: true})) return [];
        const range = document.createRange();
        range.selectNodeContents(node);
        const isDrawing = element instanceof SVGElement;
        return [...range.getClientRects()].flatMap((rect) => {
            const box = boxOf(rect);
            if (wide(box) < 1 || tall(box) < 1) return [];
            const {shown, cut, scroller} = clipped(element, box, isDrawing);
            if (isEmpty(shown)) return [];
            const [r, g, b, a] = colour(isDrawing ? style(element).fill : style(element).color);
            const strength = a * opacity(element) * (isDrawing ? Number(style(element).fillOpacity) : 1);
            return [{text: node.data.trim(), box, shown, cut, scroller, element, ink: [r, g, b, strength], back: () => [behind(element, middle(box))]}];
        });
    }

    // The part of a text that can be seen or scrolled to, the area that has to be scrolled, and who cuts the text.
    function clipped(element, box, isDrawing) {
        const frames = [...upwards(element)];
        let [shown, cut, scroller, says] = [box, null, null, false];
        const scrolls = [false, false]; // sideways, up and down
        for (const each of frames) {
            const {overflowX, overflowY, textOverflow, position, display} = style(each);
            says ||= each.hasAttribute("title") && !isDrawing;
            if (overflowX !== "visible" && (display !== "inline" || each instanceof SVGSVGElement)) {
                const frame = boxOf(each.getBoundingClientRect());
                [overflowX, overflowY].forEach((way, axis) => {
                    const slack = axis ? 0.3 * tall(box) : TOUCH;
                    if (scrolls[axis] || (shown[axis] >= frame[axis] - slack && shown[axis + 2] <= frame[axis + 2] + slack)) return;
                    if (way === "auto" || way === "scroll") {
                        scrolls[axis] = true;
                        scroller ??= each;
                        return;
                    }
                    if (textOverflow !== "ellipsis" && !says) cut ??= each;
                    shown = axis ? [shown[0], Math.max(shown[1], frame[1]), shown[2], Math.min(shown[3], frame[3])]
                        : [Math.max(shown[0], frame[0]), shown[1], Math.min(shown[2], frame[2]), shown[3]];
                });
            }
            if (position === "fixed") break;
        }
        if (!scrolls[0] && shown[0] < -TOUCH) cut ??= document.documentElement; // nobody can scroll to the left of a page
        return {shown, cut, scroller};
    }

    function onCanvas(canvas) {
        const context = canvas.checkVisibility({visibilityProperty: true}) && canvas.getContext("2d");
        const kept = context && drawn.get(context);
        if (!kept?.texts.length) return [];
        const at = boxOf(canvas.getBoundingClientRect());
        const scale = wide(at) / canvas.width;
        const pixels = pixelsOf(canvas);
        const paper = behind(canvas, middle(at));
        const toPage = (box) => [at[0] + box[0] * scale, at[1] + box[1] * scale, at[0] + box[2] * scale, at[1] + box[3] * scale];
        return kept.texts.flatMap(({text, box, clip, ink, alpha}) => {
            const within = meet(box, clip ? meet(clip, [0, 0, canvas.width, canvas.height]) : [0, 0, canvas.width, canvas.height]);
            if (isEmpty(within) || tall(within) < 0.5 * tall(box)) return []; // a row that is scrolled half out of sight
            const cut = box[0] < within[0] - TOUCH / scale || box[2] > within[2] + TOUCH / scale ? canvas : null;
            const {shown, scroller} = clipped(canvas, toPage(within), false);
            if (isEmpty(shown)) return [];
            const [r, g, b, a] = colour(ink);
            const back = () => common(pixels, within, paper, [r, g, b]);
            return [{text, box: toPage(box), shown, cut, scroller, element: canvas, ink: [r, g, b, a * alpha], back, onCanvas: true}];
        });
    }

    // The colours that fill a good part of a box, without the letters.
    function common({data, width}, box, paper, ink) {
        const counts = new Map();
        let all = 0;
        for (let y = Math.floor(box[1]); y < Math.ceil(box[3]); y++) {
            for (let x = Math.floor(box[0]); x < Math.ceil(box[2]); x++) {
                const start = 4 * (y * width + x);
                const [r, g, b] = over([...data.slice(start, start + 3), data[start + 3] / 255], paper);
                const key = `${Math.round(r)},${Math.round(g)},${Math.round(b)}`;
                counts.set(key, (counts.get(key) ?? 0) + 1);
                all++;
            }
        }
        const listed = [...counts].sort((a, b) => b[1] - a[1]).map(([key, times]) => [key.split(",").map(Number), times]);
        const far = listed.filter(([each]) => each.some((part, at) => Math.abs(part - ink[at]) > 8));
        return far.filter(([, times], at) => at === 0 || times > 0.2 * all).map(([each]) => each);
    }

    // ---- checks: each yields sentences

    const said = (text) => `'${text.length > 60 ? `${text.slice(0, 57)}...` : text}'`.replace(/\s+/g, " ");

    function place(element) {
        const named = [...upwards(element)].find((each) => each.id || each.getAttribute("class"));
        return named ? `${named.tagName.toLowerCase()}${named.id ? `#${named.id}` : `.${named.getAttribute("class").split(" ")[0]}`}` : element.tagName.toLowerCase();
    }

    function* onOneAnother(all) {
        const sorted = all.map((each) => ({...each, letters: letters(meet(each.box, each.shown))})).filter((each) => !isEmpty(each.letters)).sort((a, b) => a.letters[1] - b.letters[1]);
        for (let at = 0; at < sorted.length; at++) {
            const a = sorted[at];
            for (let next = at + 1; next < sorted.length && sorted[next].letters[1] < a.letters[3] - TOUCH; next++) {
                const b = sorted[next];
                const both = meet(a.letters, b.letters);
                if (a.scroller !== b.scroller) continue; // one of the two is somewhere else
                const isHalo = a.text === b.text && Math.abs(a.box[0] - b.box[0]) < 1 && Math.abs(a.box[1] - b.box[1]) < 1;
                if (wide(both) > TOUCH && tall(both) > TOUCH && !isHalo && !isCovered(a, b, middle(both))) yield `text over text: ${said(a.text)} and ${said(b.text)}`;
            }
        }
    }

    // Whether what holds one of two texts hides the other one, as a menu does.
    function isCovered(a, b, at) {
        if (a.onCanvas && b.onCanvas) return false;
        const stack = stackAt(document, at);
        const [first, second] = [stack.indexOf(a.element), stack.indexOf(b.element)];
        if (first < 0 || second < 0) return stack.length > 0 && (first >= 0 || second >= 0);
        const lower = first > second ? a.element : b.element;
        return stack.slice(0, Math.max(first, second)).some((each) => !each.contains(lower) && !isShape(each) && colour(style(each).backgroundColor)[3] === 1);
    }

    function stackAt(root, at) {
        return root.elementsFromPoint(...at).flatMap((each) => each.shadowRoot && each.shadowRoot !== root ? [...stackAt(each.shadowRoot, at), each] : [each]);
    }

    function* tooFaint(all) {
        for (const {text, ink, back} of all) {
            for (const each of back()) {
                const ratio = contrast(over(ink, each), each);
                if (ratio < LEAST_CONTRAST - 0.005) yield `contrast ${ratio.toFixed(2)}: ${said(text)}`;
            }
        }
    }

    function* outside(all) {
        for (const {text, box, cut, element, onCanvas: drawnText} of all) {
            const frame = cut ?? (drawnText ? null : beyond(element, box));
            if (frame) yield `outside of its frame, ${place(frame)}: ${said(text)}`;
        }
    }

    // The frame that a text sticks out of: one with a colour or a border, or the rectangle that the text is the label of.
    function beyond(element, box) {
        if (element instanceof SVGElement) {
            const [x, y] = middle(box);
            const mine = areas(outermost(element)).filter(({element: each, box: of}) => each instanceof SVGRectElement && holds(of, [x, y])
                && follows(each, element) && Math.abs(middle(of)[0] - x) < 1 && wide(of) > 4).at(-1);
            return mine && wide(box) > wide(mine.box) + 2 * TOUCH && tall(box) < tall(mine.box) + 2 * TOUCH ? mine.element : null;
        }
        for (const each of upwards(element)) {
            const {backgroundColor, borderLeftWidth, borderRightWidth, overflowX, position, display} = style(each);
            if (overflowX !== "visible" && display !== "inline") return null; // who scrolls or cuts is asked by `clipped`
            const isFrame = colour(backgroundColor)[3] > 0 || (parseFloat(borderLeftWidth) > 0 && parseFloat(borderRightWidth) > 0);
            if (isFrame && display !== "inline") {
                const frame = each.getBoundingClientRect();
                return box[0] < frame.left - TOUCH || box[2] > frame.right + TOUCH ? each : null;
            }
            if (position === "fixed") return null;
        }
        return null;
    }

    function* struckThrough(all) {
        for (const {text, box, element} of all) {
            if (!(element instanceof SVGElement)) continue;
            const [left, top, right, bottom] = letters(box);
            const inside = [left + TOUCH, top + TOUCH, right - TOUCH, bottom - TOUCH];
            const drawing = outermost(element);
            const hides = (line, at) => areas(drawing).some((each) => each.ink[3] > 0.9 && covers(each, at) && isBetween(line, each.element, element));
            const strikes = lines(drawing).some(({element: line, box: of, points}) => !isEmpty(meet(widened(of), inside))
                && points.some((at) => holds(inside, at) && !hides(line, at)));
            if (strikes) yield `a line through ${said(text)}`;
        }
    }

    const widened = ([left, top, right, bottom]) => [left - 1, top - 1, right + 1, bottom + 1];
    const isBetween = (line, area, text) => follows(line, area) && follows(area, text);

    const strokes = new Map();

    function lines(drawing) { // as points that are at most three pixels apart
        if (!strokes.has(drawing)) {
            strokes.set(drawing, [...drawing.querySelectorAll("line, path, polyline")].flatMap((element) => {
                const {stroke, strokeOpacity, strokeWidth} = style(element);
                const isSeen = stroke !== "none" && colour(stroke)[3] * Number(strokeOpacity) * opacity(element, drawing) > 0.05 && parseFloat(strokeWidth) > 0;
                if (!isSeen || element.closest("defs, marker") || !element.checkVisibility({visibilityProperty: true})) return [];
                const [matrix, length] = [element.getScreenCTM(), element.getTotalLength()];
                const count = Math.min(Math.ceil(length * Math.hypot(matrix.a, matrix.b) / 3), 2000);
                const points = Array.from({length: count + 1}, (_, at) => element.getPointAtLength(length * at / Math.max(count, 1)).matrixTransform(matrix)).map(({x, y}) => [x, y]);
                return [{element, box: boxOf(element.getBoundingClientRect()), points}];
            }));
        }
        return strokes.get(drawing);
    }

    function* tooSmall(all) {
        for (const {text, element, onCanvas: drawnText} of all) {
            if (drawnText) continue;
            const matrix = element instanceof SVGElement ? element.getScreenCTM() : null;
            const size = parseFloat(style(element).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
            if (size < LEAST_SIZE) yield `${size.toFixed(1)} pixels are too small: ${said(text)}`;
        }
    }

    function* wideAsTheWindow() {
        const page = document.documentElement;
        if (!(page instanceof SVGElement) && page.scrollWidth > innerWidth + 1) yield `the page is ${page.scrollWidth} pixels wide in a window of ${innerWidth}`;
    }

    function* blank(all) {
        const main = document.querySelector("main") ?? document.body ?? document.documentElement;
        const mine = all.filter((each) => main.contains(each.element.getRootNode().host ?? each.element));
        const length = mine.reduce((sum, each) => sum + each.text.length, 0);
        if (length < LEAST_LETTERS) yield `blank: ${length} letters of text, needs ${LEAST_LETTERS}`;
        const shows = "table, svg, canvas, img, dl, .card, pre, ol, ul, .chip-picture";
        const pictures = [...main.querySelectorAll(shows)].filter((each) => each.checkVisibility() && each.getBoundingClientRect().height > 12);
        if (!(main instanceof SVGElement) && !pictures.length) yield `blank: no table, picture or list beside ${said(main.innerText ?? "")}`;
        for (const canvas of main.querySelectorAll("canvas")) {
            if (!canvas.checkVisibility() || !canvas.width || !canvas.height) continue;
            const {data} = pixelsOf(canvas);
            const seen = new Set(new Uint32Array(data.buffer));
            if (seen.size < 4) yield `blank: a canvas of ${seen.size} colours`;
        }
        for (const drawing of main.querySelectorAll("svg")) {
            if (!drawing.querySelector("rect, path, line, circle, polyline, polygon, text, image, use")) yield `blank: an empty drawing in ${place(drawing)}`;
        }
        for (const image of main.querySelectorAll("img")) if (image.checkVisibility() && image.complete && !image.naturalWidth) yield `blank: an image that did not load, ${image.alt}`;
    }

    function see(mayBeEmpty) {
        for (const each of [styles, drawings, strokes]) each.clear();
        const all = texts();
        return [...new Set([...onOneAnother(all), ...tooFaint(all), ...outside(all), ...struckThrough(all), ...tooSmall(all), ...wideAsTheWindow(), ...(mayBeEmpty ? [] : blank(all))])];
    }

    // The texts that can be read or scrolled to, those on canvases too.
    function read() {
        for (const each of [styles, drawings, strokes]) each.clear();
        return texts().map((each) => each.text);
    }

    return {watch, see, read};
})();
