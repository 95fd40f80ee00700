// What is wider than its place: a line above it says how much more there is, and leads there. Nothing lies over the content.

import {h} from "/dom.js";

const SCROLLING = ".scroll, .chart, #views";
const LINES = new WeakMap();

// Watches all boxes of `place` that can scroll sideways, also those that come later.
export function watchOverflow(place) {
    const sizes = new ResizeObserver((entries) => entries.forEach(({target}) => tell(target)));
    let isAsked = false;
    const look = () => {
        isAsked = false;
        for (const box of place.querySelectorAll(SCROLLING)) {
            if (!LINES.has(box)) {
                LINES.set(box, lineOf(box));
                sizes.observe(box);
                box.addEventListener("scroll", () => tell(box), {passive: true});
            }
            tell(box); // what is in it may have changed
        }
    };
    const soon = () => {
        if (!isAsked) requestAnimationFrame(look);
        isAsked = true;
    };
    new MutationObserver(soon).observe(place, {childList: true, subtree: true});
    soon();
}

function lineOf(box) {
    return h("button", {type: "button", class: "more", onclick: () => {
        const isAtEnd = rest(box) < 2;
        box.scrollTo({left: isAtEnd ? 0 : box.scrollLeft + 0.8 * box.clientWidth});
    }});
}

function rest(box) {
    return box.scrollWidth - box.clientWidth - box.scrollLeft;
}

function tell(box) {
    const line = LINES.get(box);
    if (!box.isConnected) return;
    if (box.scrollWidth - box.clientWidth < 2) {
        line.remove();
        return;
    }
    const text = rest(box) < 2 ? box.id === "views" ? "← more" : "← back to the left" : more(box);
    if (line.textContent !== text) line.textContent = text;
    if (line.nextSibling !== box) box.before(line);
}

function more(box) {
    if (box.id === "views") return "more →";
    const right = box.getBoundingClientRect().right;
    const heads = [...box.querySelectorAll("thead th")].filter((each) => each.textContent && each.getBoundingClientRect().right > right + 1);
    return heads.length ? `${heads.length} more ${heads.length === 1 ? "column" : "columns"} →` : "more to the right →";
}
