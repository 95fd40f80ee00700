// Requests to this server, and its news of runs.

const SILENT = "kb web does not answer: it was stopped, or its terminal was closed. Start it again.";
const AGAIN_MS = 3000; // before the news of a server that refused them are asked for again

export class Refused extends Error {
    // `command` mends it, and is undefined where the sentence says how.
    constructor(text, status, command) {
        super(text);
        this.status = status;
        this.command = command;
    }
}

async function answer(name, fields, signal) {
    const query = new URLSearchParams(Object.entries(fields ?? {}).filter(([, value]) => value !== undefined));
    let found;
    try {
        found = await fetch(`/api/${name}?${query}`, {signal, credentials: "same-origin"});
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Refused(SILENT, 0);
    }
    if (!found.ok) throw await refusal(found);
    return found;
}

async function refusal(found) {
    if (!found.headers.get("content-type").includes("json")) return new Refused((await found.text()).trim(), found.status);
    const {text, command} = await found.json();
    return new Refused(text, found.status, command);
}

export async function json(name, fields, signal) {
    return (await answer(name, fields, signal)).json();
}

export async function bytes(name, fields, signal) {
    return (await answer(name, fields, signal)).arrayBuffer();
}

const listeners = new Set();
let events = null;
let latest = null;

function listen() {
    const wanted = listeners.size > 0 && !document.hidden;
    if (wanted && !events) {
        events = new EventSource("/api/live");
        events.addEventListener("message", (event) => {
            latest = JSON.parse(event.data);
            for (const each of listeners) each(latest, true);
        });
        events.addEventListener("error", () => {
            if (events?.readyState === EventSource.CLOSED) refused();
            else for (const each of listeners) each(latest, false, SILENT);
        });
    } else if (!wanted && events) {
        events.close();
        events = null;
    }
}

// The server answers and does not know this page, or is another one. The browser does not try again by itself.
async function refused() {
    events.close();
    events = null;
    let why = SILENT;
    try {
        await json("runs");
    } catch (error) {
        why = error.message;
    }
    for (const each of listeners) each(latest, false, why);
    setTimeout(listen, AGAIN_MS);
}

document.addEventListener("visibilitychange", listen);

// Calls `told(list, isConnected, why not)` now and at every change, until the function that it returns is called.
export function live(told) {
    listeners.add(told);
    if (latest) told(latest, true);
    listen();
    return () => {
        listeners.delete(told);
        listen();
    };
}
