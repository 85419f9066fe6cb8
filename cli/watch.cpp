// `varve watch`: the page of a run in a browser, refreshed as epochs end.
#include "cli/watch.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text.h"
#include "cli/menu.h"
#include "cli/text.h"
#include "page/document.h"
#include "page/markup.h"
#include "varve/io.h"
#include "varve/train/run.h"

namespace varve::cli {
namespace {

namespace fs = std::filesystem;

struct WatchOptions {
  std::string run;
  int port = kWatchPort;
};

// Asks what the run does; when its page is a new one, takes the new content over in place, so that nothing jumps.
constexpr const char* kScript = R"js(
const line = document.createElement("p");
line.id = "watch";
document.body.prepend(line);
let seen = null, last = "", pages = 0;
async function look() {
  try {
    const state = await (await fetch("/state")).json();
    last = state.text;
    line.textContent = last;
    line.dataset.state = state.state;
    if (state.page !== seen) {
      const text = await (await fetch("/page")).text();
      const next = new DOMParser().parseFromString(text, "text/html");
      document.querySelector("main").replaceWith(next.querySelector("main"));
      document.title = next.title;
      for (const style of next.querySelectorAll("style")) {
        if (![...document.querySelectorAll("style")].some(s => s.textContent === style.textContent))
          document.head.append(style);
      }
      seen = state.page;
      line.dataset.pages = ++pages;
    }
  } catch {
    line.textContent = last + " · nobody serves this page any more";
    line.dataset.state = "gone";
  }
  setTimeout(look, 1000);
}
look();
)js";

constexpr const char* kWatchStyle =
    "<style>#watch { position: sticky; top: 0; z-index: 1; max-width: 76rem; margin: 0 auto 1rem; padding: 0.4rem "
    "0.8rem; "
    "border: 1px solid var(--line); border-radius: 8px; background: var(--card); font-size: 0.9rem; }\n"
    "#watch[data-state=training] { border-color: var(--s3); }</style>\n";

std::string waiting_page(const std::string& folder) {
  return page::html_document({.title = folder,
                              .body = "<header>\n<h1>" + page::escaped(folder) +
                                      "</h1>\n<p>The first epoch has not ended yet: its figures will be here.</p>\n"
                                      "</header>\n"});
}

std::string page_of(const std::string& folder) {
  std::error_code ignored;
  const std::string path = folder + "/index.html";
  if (!fs::exists(path, ignored)) return waiting_page(folder);
  return load_text(path, 64 << 20);
}

std::string state_text(const train::RunInfo& run) {
  const std::size_t epochs = run.history.epochs.size();
  std::string text = cat(name(run.state), " · epoch ", epochs, " of ", run.config.epochs);
  if (run.history.best_epoch > 0)
    text += cat(" · best ", run.history.monitor, " ", fixed(run.history.best, 4), " at epoch ", run.history.best_epoch);
  return text;
}

std::string state_json(const std::string& folder) {
  nlohmann::json state{{"state", "unknown"}, {"text", folder}, {"page", "none"}};
  std::error_code ignored;
  const auto written = fs::last_write_time(folder + "/index.html", ignored);
  if (!ignored) state["page"] = cat(written.time_since_epoch().count());
  try {
    const train::RunInfo run = train::inspect_run(folder);
    state["state"] = name(run.state);
    state["text"] = state_text(run);
  } catch (const std::exception& e) {
    state["text"] = e.what();
  }
  return state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

PageAnswer answer_for(const std::string& folder, const std::string& nonce, const std::string& path) {
  constexpr const char* kHtml = "text/html; charset=utf-8";
  try {
    if (path == "/state") return {.status = 200, .type = "application/json", .body = state_json(folder)};
    if (path == "/page") return {.status = 200, .type = kHtml, .body = page_of(folder)};
    if (path != "/") return {};
    std::string html = page_of(folder);
    html.insert(std::min(html.find("</head>"), html.size()), kWatchStyle);
    html.insert(std::min(html.rfind("</body>"), html.size()),
                cat("<script nonce=\"", nonce, "\">", kScript, "</script>\n"));
    return {.status = 200, .type = kHtml, .body = html};
  } catch (const std::exception& e) {
    return {.status = 404, .body = cat(e.what(), "\n")};
  }
}

int run_watch(const WatchOptions& options) {
  if (!fs::is_directory(options.run))
    throw UsageError(cat("'", options.run, "' is not the folder of a run, such as runs/lenet5-1."));
  const std::unique_ptr<PageServer> server = watch_run(options.run, options.port);
  std::cout << server->url() << "  (Ctrl-C ends)" << std::endl;
  server->wait();
  return kOk;
}

}  // namespace

std::unique_ptr<PageServer> watch_run(const std::string& folder, int port) {
  std::random_device random;
  const std::string nonce = cat(std::hex, random(), random(), random());
  const std::string csp =
      cat("default-src 'none'; img-src data:; style-src 'unsafe-inline'; connect-src 'self'; ",
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'nonce-", nonce, "'");
  return std::make_unique<PageServer>(
      port, csp, [folder, nonce](const std::string& path) { return answer_for(folder, nonce, path); });
}

void add_watch(Menu& menu) {
  auto options = std::make_shared<WatchOptions>();
  menu.command({.name = "watch",
                .what = "Show the page of a run in a browser, refreshed while it trains",
                .examples = "Examples:\n  varve watch runs/lenet5-1\n  varve train lenet5 --watch     the same while "
                            "it trains\n\nOnly this machine can see the page. From another one: ssh -L "
                            "8642:127.0.0.1:8642 HOST"},
               [options] { return run_watch(*options); })
      .option("run", options->run, "the run's folder", {.required = true})
      .option("--port", options->port, "of 127.0.0.1; a free one when it is taken", {.least = 0, .most = 65535});
}

}  // namespace varve::cli
