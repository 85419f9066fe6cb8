// The page as a reader sees it: Chromium opens it, light and dark, on a telephone and on a wide screen, and must have
// nothing to complain about and nothing that sticks out.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "bench/report/made_up.h"
#include "bench/report/report.h"
#include "temporary_folder.h"

namespace varve::bench {
namespace {

// Runs in the page after it was laid out, and leaves what it found in the title: that is the page's way to speak.
const char* const kProbe = R"js(<script>
addEventListener("load", () => {
  const wide = document.documentElement.clientWidth, out = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (e.closest(".scroll, nav")) continue;  // these scroll by themselves
    if (e.getBoundingClientRect().right > wide + 1) out.push(e.tagName + "." + e.className);
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const over = document.documentElement.scrollWidth - wide;
  document.title = `probe: width ${innerWidth}, ${dark}, over ${over}, out ${out.slice(0, 5).join(" ") || "none"}.`;
});
</script>)js";

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return "";
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
  return pclose(pipe) == 0 ? text : text + "\n(the browser failed)";
}

std::string browser() {
  const char* named = std::getenv("VARVE_CHROMIUM");
  return named ? named : "chromium";
}

struct View {
  const char* name;
  int width;
  bool dark;
};
class ReportInBrowser : public testing::TestWithParam<View> {};

TEST_P(ReportInBrowser, NothingSticksOutAndNothingIsComplainedAbout) {
  const View& view = GetParam();
  test::TemporaryFolder folder;
  ASSERT_EQ(std::system((browser() + " --version > /dev/null 2>&1").c_str()), 0)
      << "Chromium is needed: tools/setup installs it (Debian's package chromium), VARVE_CHROMIUM names another.";
  std::string page =
      report_page(Facts(made_up_records({.machines = 2})), {.problems = {"records.jsonl, line 3: no record"}});
  page.insert(page.find("</head>"), kProbe);
  std::ofstream(folder / "page.html") << page;
  // A window has a least width; a frame in it has not.
  std::ofstream(folder / "frame.html")
      << "<!DOCTYPE html><title>frame</title><body style=\"margin:0\"><iframe src=\"page.html\" style=\"border:0;width:"
      << view.width << "px;height:900px\"></iframe>"
      << "<script>addEventListener('load', () => { document.title = frames[0].document.title; });</script>";
  const std::string seen =
      output_of(browser() +
                " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --allow-file-access-from-files "
                "--enable-logging=stderr --virtual-time-budget=5000 --window-size=1500,1000 --user-data-dir=" +
                (folder / "profile") +
                (view.dark ? " --blink-settings=preferredColorScheme=0" : " --blink-settings=preferredColorScheme=1") +
                " --dump-dom file://" + (folder / "frame.html"));
  EXPECT_EQ(seen.find("CONSOLE"), std::string::npos) << seen.substr(0, 3000);
  const std::string expected =
      "probe: width " + std::to_string(view.width) + ", " + (view.dark ? "dark" : "light") + ", over 0, out none.";
  const std::size_t at = seen.find("probe: ");
  EXPECT_NE(seen.find(expected), std::string::npos)
      << (at == std::string::npos ? seen.substr(0, 3000) : seen.substr(at, seen.find('<', at) - at));
}

INSTANTIATE_TEST_SUITE_P(Views, ReportInBrowser,
                         testing::Values(View{"NarrowLight", 390, false}, View{"NarrowDark", 390, true},
                                         View{"WideLight", 1440, false}, View{"WideDark", 1440, true}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace varve::bench
