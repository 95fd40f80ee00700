// The rows of the timeline: a tree of launches, memories, links and parts of the chip. Pure: no element and no request.

export const ROW = 18;
const FOLDED = 22; // the height of a folded row
const PARTS = [4, 8]; // the least and the most height of the strip of a part in a folded row
const MOST_PARTS = 16; // that a folded row shows as strips of their own
const MOST_LAUNCHES = 8; // lanes of launches that are shown one by one
const OPEN_PES = 8; // more PEs begin folded
export const READING = "being worked out ...";
export const ORDERS = {name: "place in the chip", busy: "time at work, longest first", end: "end, latest first"};

// A node has `own`, the lane of its heat, and `children`; a leaf has `ref`, its lane. A lane is {table, lane}.
export class Tree {
    constructor(lists, room) {
        this.leaves = new Map();
        this.byKey = new Map();
        this.order = "name";
        this.part = PARTS[0];
        this.pes = this.parts(lists.get("ops"), lists.get("waits"));
        this.above = [...this.launches(lists), ...["memories", "links"].flatMap((table) => this.system(lists.get(table), table))];
        for (const root of [...this.above, ...this.pes]) this.adopt(root, null, 0);
        this.units = [...this.byKey.values()].filter((node) => node.isPe);
        if (this.units.length <= OPEN_PES) for (const pe of this.units) pe.open = true;
        this.place();
        if (this.units.length <= OPEN_PES) return;
        this.openWhatFits(this.pes, room);
        while (this.height < room && this.part < PARTS[1]) this.widen(1);
        if (this.height > room && this.part > PARTS[0]) this.widen(-1);
    }

    // Calls that overlap have many lanes, so they are folded into one row.
    launches(lists) {
        const found = ["launches", "ops"].flatMap((table) => (lists.get(table)?.groups ?? []).filter((each) => each.name === "launches")
            .flatMap((group) => group.lanes.map((lane) => leaf(table, lane, group.name, lane.title))));
        const calls = found.filter((each) => each.name.endsWith("call to answer"));
        const others = found.filter((each) => !calls.includes(each));
        const rows = [...(calls.length > 2 ? [{key: "calls", name: "calls to answers", children: calls, isFixed: true}] : calls), ...others];
        return rows.length <= MOST_LAUNCHES ? rows : [{key: "launches", name: "launches", children: rows, isFixed: true}];
    }

    system(list, table) {
        if (!list) return [];
        if (list.isUnread) return [{key: table, name: table, children: [], isUnread: true, waits: list.isAsked ? READING : "→ reads them"}];
        const [root] = grown(list, table);
        if (!root) return [];
        skipSingles(root);
        return [Object.assign(root, {name: table, key: table})];
    }

    parts(list, waits) {
        const [root] = grown(list, "ops");
        this.whole = root;
        const units = new Map();
        if (root) eachNode(root, (node) => {
            node.isPe = node.isUnit;
            if (node.isUnit) units.set(node.name, node);
        });
        const alone = [];
        for (const {name, lanes} of waits?.groups ?? []) {
            const found = lanes.map((lane) => leaf("waits", lane, name, lane.title));
            if (units.has(name)) units.get(name).children.unshift(...found);
            else alone.push(...found.map((each) => ({...each, name: `${name}: ${each.name}`})));
        }
        if (root) skipSingles(root);
        return [...(root?.isUnit ? [root] : root?.children ?? []), ...alone];
    }

    adopt(node, parent, depth) {
        Object.assign(node, {parent, depth});
        let key = node.key;
        for (let number = 2; this.byKey.has(key); number++) key = `${node.key} ${number}`;
        node.key = key;
        this.byKey.set(key, node);
        if (node.ref) this.leaves.set(`${node.ref.table} ${node.ref.lane}`, node);
        for (const child of node.children ?? []) this.adopt(child, node, depth + 1);
    }

    // Opens level after level, as long as all rows are as high as `room` at most.
    openWhatFits(nodes, room) {
        const level = nodes.filter((each) => each.children && !each.isPe);
        if (!level.length) return;
        for (const node of level) node.open = true;
        this.place();
        if (this.height > room) {
            for (const node of level) node.open = false;
            this.place();
        } else this.openWhatFits(level.flatMap((each) => each.children), room);
    }

    widen(by) {
        this.part += by;
        this.place();
    }

    // Takes over which nodes are open, and the order.
    like(other) {
        for (const node of this.byKey.values()) if (node.children && other.byKey.has(node.key)) node.open = other.byKey.get(node.key).open;
        this.order = other.order;
        this.place();
        return this;
    }

    // Gives every row its place: {node, lanes, y, height}. The lanes of a folded row are the strips of its parts.
    place() {
        this.rows = [];
        this.rowByKey = new Map();
        this.height = 0;
        const add = (node) => {
            const row = {...this.row(node), y: this.height};
            this.rows.push(row);
            this.rowByKey.set(node.key, row);
            this.height += row.height;
            if (node.open) this.ordered(node).forEach(add);
        };
        this.above.forEach(add);
        this.sorted(this.pes).forEach(add);
    }

    row(node) {
        if (node.ref) return {node, lanes: [node.ref], height: ROW};
        const parts = this.ordered(node);
        const showsParts = !node.open && !node.isUnit && (!node.own || parts.length > 1 && parts.length <= MOST_PARTS);
        if (showsParts) {
            const lanes = parts.flatMap((each) => each.own ?? each.ref ?? each.children.map((child) => child.ref));
            return {node, lanes, height: Math.max(FOLDED, lanes.length * this.part + 4)};
        }
        return {node, lanes: node.own ? [node.own] : [], height: node.open ? ROW : FOLDED};
    }

    ordered(node) {
        return node.isUnit || node.isFixed ? node.children : this.sorted(node.children);
    }

    sorted(nodes) {
        return this.order === "name" ? nodes : [...nodes].sort((a, b) => this.rank(b) - this.rank(a));
    }

    // What nodes are ordered by: the largest value of their units, so that the first PE of all stands first at each level.
    rank(node) {
        if (this.order === "end" && node.end !== undefined && node.end !== null) return node.end;
        if (node.ref || node.isUnit) return node.busy;
        return Math.max(...node.children.map((each) => this.rank(each)));
    }

    toggle(node, open = !node.open) {
        if (!node.children) return;
        node.open = open;
        this.place();
    }

    // Opens all parts of the chip, which are what most people look for, or folds all rows.
    openAll(open) {
        for (const node of this.byKey.values()) if (node.children && (!open || node.key.startsWith("ops "))) node.open = open;
        this.place();
    }

    // Opens or folds all nodes of the depth of `node` in its root's kind: all cubes, all PEs.
    openLevel(node, open) {
        const kind = (each) => [each.depth, each.own?.table, each.isUnit].join(" ");
        for (const each of this.byKey.values()) if (each.children && kind(each) === kind(node)) each.open = open;
        this.place();
    }

    sort(order) {
        this.order = order;
        this.place();
    }

    between(top, bottom) {
        let low = 0;
        let high = this.rows.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.rows[middle].y + this.rows[middle].height <= top) low = middle + 1;
            else high = middle;
        }
        const found = [];
        for (let at = low; at < this.rows.length && this.rows[at].y < bottom; at++) found.push(this.rows[at]);
        return found;
    }

    rowOf(key) {
        return this.rowByKey.get(key);
    }

    // The row of a node, above which everything is opened.
    show(node) {
        for (let each = node?.parent; each; each = each.parent) each.open = true;
        this.place();
        return node && this.rowOf(node.key);
    }

    leaf({table, lane}) {
        return this.leaves.get(`${table} ${lane}`);
    }

    // The height of the middle of a lane, which may be a strip of a folded row.
    middle(ref) {
        let [node, from] = [this.leaf(ref), null];
        while (node) {
            const row = this.rowOf(node.key);
            const at = from ? row?.lanes.indexOf(from.own ?? from.ref) ?? -1 : -1;
            if (row) return row.y + (at < 0 ? row.height / 2 : row.height * (at + 0.5) / row.lanes.length);
            [node, from] = [node.parent, node];
        }
        return undefined;
    }
}

// The lane of a row at a height within it.
export function laneOf(row, y) {
    return row.lanes[Math.min(Math.max(Math.floor(y / row.height * row.lanes.length), 0), row.lanes.length - 1)];
}

function leaf(table, {lane, title, busy_ps: busy}, group, name) {
    return {key: `${table} ${group}/${title}`, name, short: name.replace(/^\w+: /, ""), ref: {table, lane}, busy};
}

// The folds of a list as nodes, each with its lanes and its parts below it. The first one is the whole.
function grown(list, table) {
    const path = [];
    const holder = new Map();
    const nodes = (list?.folds ?? []).map((fold, lane) => {
        const node = {key: `${table} ${fold.name}`, name: fold.name, short: fold.name.split(".").at(-1), isUnit: table !== "links",
            own: {table: `${table}.folded`, lane}, units: fold.units, busy: fold.busy_ps, end: fold.end_ps, lastOp: fold.last_op,
            lanes: [], children: [], open: false};
        while (path.length && path.at(-1).name && !`${fold.name}.`.startsWith(`${path.at(-1).name}.`)) path.pop();
        const above = path.at(-1);
        if (above) {
            above.children.push(node);
            above.isUnit = false;
        }
        path.push(node);
        for (let each = fold.first; each < fold.last; each++) holder.set(each, node);
        return node;
    });
    for (const group of list?.groups ?? []) {
        for (const lane of group.lanes) {
            const title = table === "memories" ? lane.title.replace(/: served$/, "") : lane.title;
            holder.get(lane.lane)?.lanes.push(leaf(table, {...lane, title}, group.name, title));
        }
    }
    for (const node of nodes) node.children = [...node.lanes, ...node.children];
    for (const node of nodes) node.children = node.children.map((each) => (table === "memories" && each.isUnit && each.lanes.length === 1
        ? {...each.lanes[0], short: each.short} : each));
    return nodes;
}

function eachNode(node, told) {
    told(node);
    for (const child of node.children ?? []) eachNode(child, told);
}

// Leaves out levels of one part alone.
function skipSingles(node) {
    while (node.children.length === 1 && node.children[0].children && !node.children[0].isUnit) node.children = node.children[0].children;
    for (const child of node.children) if (child.children) skipSingles(child);
}
