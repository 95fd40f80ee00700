// What stands in the middle of an empty view: why it is empty, with the command that fills it.

import {copier, h} from "/dom.js";

export function empty(title, text, command) {
    return h("div", {class: "middle"}, h("div", {class: "panel", role: "note"}, h("h2", null, title), h("p", null, text),
        command ? h("div", {class: "command"}, h("code", null, command), h("div", {class: "tools"}, copier(() => command))) : null));
}
