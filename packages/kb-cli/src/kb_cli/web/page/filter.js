// A box of words over a table: rows that have all words stay.

import {h} from "/dom.js";
import {count} from "/format.js";

// The box, and `apply(tables)`, which hides rows. `value` stands in the box at first; `told` hears of changes.
export function filterBox(what, {value = "", told = () => {}} = {}) {
    let tables = [];
    const said = h("span", {class: "soft", role: "status"});
    const input = h("input", {type: "search", value, placeholder: `find ${what}`, "aria-label": `find ${what}`, oninput: () => {
        hide();
        told(input.value);
    }});
    const hide = () => {
        const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
        const rows = tables.flatMap((each) => [...each.querySelectorAll("tbody tr")]);
        for (const row of rows) row.hidden = !words.every((word) => textOf(row).includes(word));
        const left = rows.filter((row) => !row.hidden).length;
        said.textContent = words.length ? `${count(left)} of ${count(rows.length)}` : "";
    };
    return {box: h("div", {class: "tools find"}, input, said), apply: (those) => {
        tables = those;
        hide();
    }};
}

function textOf(row) {
    return `${[...row.cells].map((each) => each.textContent).join(" ")} ${row.dataset.find ?? ""}`.toLowerCase();
}
