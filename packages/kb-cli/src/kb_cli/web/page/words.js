// What reasons and edges mean, in the words of the terminal.

import {json} from "/api.js";

const {reasons, via: edges} = await json("words");

export const REASONS = reasons;

export function via(name) {
    return edges[name] ?? name;
}
