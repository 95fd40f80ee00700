// The rows of the timeline: PEs with their lanes, then memories and launches. Pure: no element and no request.

export const ROW = 18;
export const STRIP = 22;
const OPEN_PES = 8; // more PEs begin folded, each in one row

export class Rows {
    constructor(tables) {
        // tables: [table, groups][], in the order in which they stand
        this.groups = tables.flatMap(([table, groups]) => groups.map((group) => ({
            table, name: group.name, lanes: group.lanes.map((each) => ({table, ...each, group: group.name})), open: true,
        })));
        this.groups = joined(this.groups);
        const pes = this.groups.filter((each) => each.table === "ops").length;
        for (const group of this.groups) group.open = pes <= OPEN_PES ? group.lanes.length <= 16 : group.table === "launches";
        this.place();
    }

    // Takes over which groups are open.
    like(other) {
        const open = new Map(other.groups.map((each) => [`${each.table} ${each.name}`, each.open]));
        for (const group of this.groups) group.open = open.get(`${group.table} ${group.name}`) ?? group.open;
        this.place();
        return this;
    }

    // Gives every row its place: `y` and `height`; a folded group is one row with all its lanes.
    place() {
        this.rows = [];
        let y = 0;
        const add = (row, height) => {
            this.rows.push({...row, y, height});
            y += height;
        };
        for (const group of this.groups) {
            if (!group.open) {
                add({group, lanes: group.lanes}, STRIP);
                continue;
            }
            if (group.lanes.length > 1 || group.lanes[0].title !== group.name) add({group, lanes: []}, ROW);
            for (const lane of group.lanes) add({group, lane, lanes: [lane]}, ROW);
        }
        this.height = y;
    }

    toggle(group) {
        group.open = !group.open;
        this.place();
    }

    openAll(open) {
        for (const group of this.groups) group.open = open;
        this.place();
    }

    // The rows that are seen between two heights.
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

    // The row of a lane; its group is opened.
    show(table, lane) {
        const group = this.groups.find((each) => each.lanes.some((one) => one.table === table && one.lane === lane));
        if (!group) return undefined;
        if (!group.open) this.toggle(group);
        return this.rows.find((row) => row.lane && row.lane.table === table && row.lane.lane === lane);
    }

    // The height of the middle of a lane, which may be a strip of a folded group.
    middle(table, lane) {
        for (const row of this.rows) {
            const at = row.lanes.findIndex((one) => one.table === table && one.lane === lane);
            if (at >= 0) return row.y + row.height * (at + 0.5) / row.lanes.length;
        }
        return undefined;
    }

    // The lane at a height: in a folded group the one whose strip is there.
    laneAt(y) {
        const [row] = this.between(y, y + 1);
        if (!row || y < row.y) return undefined;
        if (row.lane) return row.lane;
        return row.lanes[Math.min(Math.floor((y - row.y) / row.height * row.lanes.length), row.lanes.length - 1)];
    }
}

// Groups of one PE in one: the waits of its kernel stand above its services.
function joined(groups) {
    const found = new Map();
    for (const group of groups) {
        const first = group.table === "waits" ? found.get(group.name) : undefined;
        if (first) first.lanes = [...group.lanes, ...first.lanes];
        else found.set(group.table === "ops" ? group.name : `${group.table} ${group.name}`, group);
    }
    return [...found.values()];
}
