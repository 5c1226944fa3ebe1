// Open a model in Netron, without a window: node open_in_netron.mjs FOLDER_OF_NETRON MODEL
// Prints {"nodes": N, "problems": [...]} as JSON; an exception of Netron ends the process.

import * as fs from "node:fs";
import * as path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(folder, name)));
const base = await load("base.js");
const view = await load("view.js");
const problems = [];

const context = {
    identifier: path.basename(file),
    stream: new base.BinaryStream(fs.readFileSync(file)),
    asset: async (name) => fs.readFileSync(path.join(folder, name), "utf-8"),
    fetch: async (name) => new base.BinaryStream(fs.readFileSync(path.join(path.dirname(file), name))),
    require: async (id) => load(`${id}.js`),
    error: (error) => problems.push(`${error.name}: ${error.message}`),
};
const host = { environment: () => null, event: () => {}, exception: () => {}, require: context.require };

function count(graph) {
    let nodes = 0;
    for (const node of graph.nodes) {
        nodes += 1;
        if (!node.type?.name) {
            problems.push(`a node without an operator: ${node.name}`);
        }
        for (const attribute of node.attributes ?? []) {
            nodes += attribute.type === "graph" ? count(attribute.value) : 0;
        }
    }
    return nodes;
}

const model = await new view.ModelFactoryService(host).open(context);
console.log(JSON.stringify({ nodes: model.modules.map(count).reduce((sum, each) => sum + each, 0), problems }));
