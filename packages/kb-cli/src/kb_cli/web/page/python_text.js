// Python source as pieces of text, each with its kind: what a reader tells apart by colour.

const WORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from global if "
    + "import in is lambda nonlocal not or pass raise return try while with yield").split(" "));
const PIECE = new RegExp([
    /(?<comment>#.*)/,
    /(?<text>[rbfuRBFU]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$(?![^]))|'''(?:\\[^]|[^\\])*?(?:'''|$(?![^]))|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /(?<number>(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?j?))/,
    /(?<mark>@(?<=^[ \t]*@)[\w.]+)/,
    /(?<word>[A-Za-z_]\w*)/,
].map((each) => each.source).join("|"), "gm");

// A list for each line of `source`: [kind, text], where kind is "" for what has no colour.
export function pieces(source) {
    const lines = [[]];
    const add = (kind, text) => text.split("\n").forEach((part, at) => {
        if (at) lines.push([]);
        if (part) lines.at(-1).push([kind, part]);
    });
    let end = 0;
    let before = "";
    for (const found of source.matchAll(PIECE)) {
        add("", source.slice(end, found.index));
        const [kind] = Object.entries(found.groups).find(([, text]) => text !== undefined);
        add(kind === "word" ? kindOf(found[0], before, source[found.index - 1]) : kind, found[0]);
        if (kind !== "comment") before = found[0];
        end = found.index + found[0].length;
    }
    add("", source.slice(end));
    return lines;
}

function kindOf(word, before, left) {
    if (before === "def" || before === "class") return "name";
    if (left === ".") return before === "tl" ? "call" : "";
    return WORDS.has(word) ? "keyword" : "";
}
