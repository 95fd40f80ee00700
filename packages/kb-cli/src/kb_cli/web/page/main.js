// The page: shows the view that the address names, and keeps the address while views change.

import {Refused, json} from "/api.js";
import {h, note} from "/dom.js";
import {empty, waiting} from "/middle.js";
import {watchOverflow} from "/overflow.js";
import {rowsText} from "/rows.js";
import {sortAll} from "/sort.js";
import {read, written} from "/state.js";

const VIEWS = {
    runs: ["Runs", "Which runs there are, and how far those are that go on"],
    overview: ["Overview", "What bounds the run"],
    timeline: ["Timeline", "What happened when"],
    why: ["Why", "Why a service started only then"],
    source: ["Source", "Which line costs what"],
    stalls: ["Stalls", "Who waited for what, and for whom"],
    topology: ["Topology", "Which link or memory is hot"],
    roofline: ["Roofline", "How far from the peak"],
    compare: ["Compare", "What changed against another run"],
    sweeps: ["Sweeps", "What many chips and parameters gave"],
};
const ALONE = new Set(["runs", "sweeps"]); // views of no run
const KEYS = Object.keys(VIEWS);

const place = document.getElementById("view");
let state = read(location.hash);
let leave = () => {};
let turn = 0;

export const page = {
    get state() {
        return state;
    },
    // The address of this view with some fields changed.
    link(changes) {
        return written({...state, ...changes});
    },
    go(changes) {
        location.hash = page.link(changes);
    },
    // Changes the address without a step in the history: for what changes while a view is used.
    keep(changes) {
        state = {...state, ...changes};
        history.replaceState(null, "", written(state));
        head();
    },
};

function head() {
    const views = document.getElementById("views");
    const held = views.contains(document.activeElement) ? document.activeElement.textContent : null;
    views.replaceChildren(...shownViews().map((each) => {
        const target = ALONE.has(each) ? {view: each} : {...state, view: each, sort: null};
        const current = each === state.view ? "page" : null;
        return h("a", {href: written(target), title: VIEWS[each][1], "aria-current": current}, VIEWS[each][0]);
    }));
    [...views.children].find((each) => each.textContent === held)?.focus();
    const current = views.querySelector("[aria-current]");
    if (current) views.scrollLeft = current.offsetLeft - (views.clientWidth - current.offsetWidth) / 2;
    const filter = state.line ? [
        h("span", {class: "chip"}, `line ${state.line}`,
            h("button", {title: "all lines", "aria-label": "show all lines", onclick: () => page.go({line: null})}, "×")),
    ] : [];
    document.getElementById("filter").replaceChildren(...filter);
}

let named = {};

// The views of what the address names: of a run, of the rows of a run together, or of none.
function shownViews() {
    const isOfRows = named[state.run]?.rows > 0;
    return KEYS.filter((each) => ALONE.has(each) || (state.run && (!isOfRows || each === "overview")));
}

async function name(run) {
    const of = document.getElementById("of");
    if (!run) {
        of.replaceChildren();
        document.title = "kernbench";
        return;
    }
    if (!(run in named)) {
        const {runs} = await json("runs");
        named = Object.fromEntries(runs.flatMap((each) => [[each.id, {name: each.name, rows: each.rows.length}],
            ...each.rows.map((row) => [row.id, {name: row.folder, above: each}])]));
    }
    if (state.run !== run) return;
    const {name: text, above} = named[run] ?? {name: ""};
    of.replaceChildren(...(above ? [h("a", {href: written({view: "overview", run: above.id}), title: `all ${rowsText(above)}`}, above.name), "/", text] : [text]));
    document.title = `${of.textContent || "kernbench"} - kernbench`;
    head();
}

async function show() {
    const mine = ++turn;
    leave();
    leave = () => {};
    state = read(location.hash);
    if (!Object.hasOwn(VIEWS, state.view)) {
        state.wrong.push(`view: got ${state.view.slice(0, 80)}, needs one of ${KEYS.join(", ")}`);
        state.view = "runs";
    }
    if (!state.run && !ALONE.has(state.view)) {
        state.wrong.push(`${state.view}: got no run, needs one of these`);
        state.view = "runs";
    }
    head();
    document.body.dataset.view = state.view;
    const content = h("div", {class: `view ${state.view}`});
    const waits = setTimeout(() => {
        if (mine === turn) place.replaceChildren(waiting(state.view, state.run, () => mine !== turn || isShown));
    }, 300);
    let isShown = false;
    try {
        await name(state.run);
        const view = await import(`/view_${state.view}.js`);
        const left = await view.show(content, page);
        if (mine !== turn) {
            left?.();
            return;
        }
        leave = left ?? (() => {});
    } catch (error) {
        if (mine !== turn || error.name === "AbortError") return;
        if (!(error instanceof Refused)) console.error(error);
        content.replaceChildren(h("h1", null, VIEWS[state.view][0]),
            error.command ? empty("This view needs the op log of the run", error.message, error.command) : note(error.message));
    } finally {
        isShown = true;
        clearTimeout(waits);
    }
    content.prepend(...state.wrong.map(note));
    sortAll(content);
    place.replaceChildren(content);
    place.scrollTop = 0;
    if (mine > 1 && document.activeElement === document.body) place.focus({preventScroll: true}); // what had it is gone
    place.dispatchEvent(new Event("shown"));
    document.body.dataset.shown = String(mine);
}

document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, select, textarea")) return;
    if (!/^\d$/.test(event.key)) return;
    const view = shownViews().at(Number(event.key) - 1); // 0 is the last one
    if (view) {
        page.go({view});
        event.preventDefault();
    }
});

watchOverflow(place);
watchOverflow(document.querySelector("header"));
window.addEventListener("hashchange", show);
show();
