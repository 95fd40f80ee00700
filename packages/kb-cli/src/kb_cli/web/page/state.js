// The address of a view: everything that a link has to say, in the fragment. `wrong` are sentences on what it says and nobody can show.

const FIELDS = ["view", "run", "with", "t0", "t1", "line", "pe", "op", "lane", "colour", "find", "part", "shown", "a", "b", "order", "pins", "sweep", "sort"];
const NUMBERS = new Set(["t0", "t1", "op", "a", "b"]);

export function read(fragment) {
    const given = new URLSearchParams(fragment.replace(/^#/, ""));
    const found = {wrong: []};
    for (const name of new Set(given.keys())) {
        if (!FIELDS.includes(name)) found.wrong.push(`${name.slice(0, 80)}: got a field that no view has, needs one of ${FIELDS.join(", ")}`);
    }
    for (const name of FIELDS) {
        const value = given.get(name);
        if (value === null || value === "") continue;
        if (NUMBERS.has(name)) {
            if (/^\d{1,16}$/.test(value)) found[name] = Number(value);
            else found.wrong.push(`${name}: got ${value.slice(0, 80)}, needs a number of 0 or more`);
        } else found[name] = value;
    }
    for (const [one, other] of [["t0", "t1"], ["t1", "t0"]]) {
        if (one in found && !given.get(other)) found.wrong.push(`${other}: got nothing, needs the other end of a window, because ${one} is ${found[one]}`);
    }
    if (found.t1 <= found.t0) found.wrong.push(`t0, t1: got ${found.t0} to ${found.t1}, needs an end after the begin`);
    if (!(found.t1 > found.t0)) {
        delete found.t0;
        delete found.t1;
    }
    found.view ??= found.run ? "overview" : "runs";
    return found;
}

export function written(state) {
    const found = new URLSearchParams();
    for (const name of FIELDS) {
        const value = state[name];
        if (value !== undefined && value !== null && value !== "") found.set(name, value);
    }
    return `#${found}`;
}
