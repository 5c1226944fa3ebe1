// Search in pages that are opened from a folder: browsers start no worker from a file, so the theme's runs in a hidden frame.

class FrameWorker extends EventTarget {
    constructor(url) {
        super();
        this.waiting = [];
        this.frame = document.createElement("iframe");
        this.frame.hidden = true;
        this.frame.srcdoc = "<!doctype html>";
        this.frame.addEventListener("load", () => this.start(String(url)), { once: true });
        document.documentElement.append(this.frame);
    }

    start(url) {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const script = inside.document.createElement("script");
        script.src = url;
        script.addEventListener("load", () => {
            this.started = true;
            this.waiting.forEach((data) => this.postMessage(data));
        });
        inside.document.body.append(script);
    }

    postMessage(data) {
        if (this.started) {
            this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
        } else {
            this.waiting.push(data);
        }
    }

    terminate() {
        this.frame.remove();
    }
}

if (location.protocol === "file:") {
    window.Worker = FrameWorker;
}
