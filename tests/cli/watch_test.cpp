// The page of a run, served: what a browser gets, and what hostile requests get.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/served.h"
#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace {

using namespace varve::test;
namespace fs = std::filesystem;

constexpr const char* kTinyRun = "train lenet5 --quiet epochs=1 data.train=200 data.test=20 batch=20";

TEST(CliWatch, ServesThePageAndItsState) {
  const Folder folder;
  ASSERT_EQ(varve_command(kTinyRun).code, 0);
  const Served server({"watch", "runs/lenet5-1", "--port", "0"});
  ASSERT_GT(server.port(), 0);
  const std::string page = server.get("/");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 OK\r\n")) << page.substr(0, 400);
  for (const char* part : {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff",
                           "Cache-Control: no-store", "<h1>lenet5</h1>", "<script nonce=", "Worst predictions"})
    EXPECT_TRUE(contains(page, part)) << part;
  const std::string state = server.get("/state");
  const auto json = nlohmann::json::parse(state.substr(state.find("\r\n\r\n")));
  EXPECT_EQ(json["state"], "finished");
  EXPECT_TRUE(contains(json["text"], "epoch 1 of 1")) << json;
  // Written anew, it is another page.
  varve::save_text("runs/lenet5-1/index.html", "<html><head></head><body><main>new</main></body></html>");
  EXPECT_NE(nlohmann::json::parse(server.get("/state").substr(state.find("\r\n\r\n")))["page"], json["page"]);
  EXPECT_TRUE(contains(server.get("/page"), "<main>new</main>"));
  // Only this machine can reach it.
  EXPECT_EQ(server.connect_to("127.0.0.2"), -1);
}

TEST(CliWatch, RefusesWhatIsHostile) {
  const Folder folder;
  ASSERT_EQ(varve_command(kTinyRun).code, 0);
  std::ofstream("secret") << "secret";
  const Served server({"watch", "runs/lenet5-1", "--port", "0"});
  ASSERT_GT(server.port(), 0);
  const std::string host = "Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n\r\n";
  const auto status = [&](const std::string& request) {
    const std::string answer = server.exchange(request);
    EXPECT_FALSE(contains(answer, "secret")) << request;
    return answer.substr(0, answer.find("\r\n"));
  };
  for (const char* path : {"/../../secret", "/config.toml", "/%2e%2e/secret", "//etc/passwd", "/last.safetensors"})
    EXPECT_EQ(status("GET " + std::string(path) + " HTTP/1.1\r\n" + host), "HTTP/1.1 404 Not Found") << path;
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "HEAD", "get", "\x01"})
    EXPECT_EQ(status(std::string(method) + " / HTTP/1.1\r\n" + host), "HTTP/1.1 405 Method Not Allowed") << method;
  for (const char* line :
       {"", " ", "GET", "GET /", "GET / HTTP/2.0", "nonsense nonsense nonsense", "GET http://a HTTP/1.1"})
    EXPECT_EQ(status(std::string(line) + "\r\n" + host), "HTTP/1.1 400 Bad Request") << line;
  // A page elsewhere whose name leads here must not read ours.
  for (const char* other : {"Host: evil.example\r\n\r\n", "Host: 127.0.0.1:1\r\n\r\n", "\r\n"})
    EXPECT_EQ(status("GET / HTTP/1.1\r\n" + std::string(other)), "HTTP/1.1 403 Forbidden") << other;
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: evil\r\n" + host), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nX: " + std::string(9000, 'x')), "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status("GET /" + std::string(20000, 'x')), "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status(std::string("GET /\0 HTTP/1.1\r\n", 17) + host), "HTTP/1.1 404 Not Found");
  // Those that say nothing, or go away in the middle, keep nobody else waiting.
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(server.connect_to("127.0.0.1"));
  for (int i = 0; i < 10; ++i) {
    const int file = server.connect_to("127.0.0.1");
    static_cast<void>(!::send(file, "GET / HT", 8, MSG_NOSIGNAL));
    ::close(file);
  }
  EXPECT_TRUE(server.get("/state").starts_with("HTTP/1.1 200 OK"));
  for (const int file : silent) ::close(file);
  // More than it takes at once: they wait until the silent ones are shown the door.
  for (int i = 0; i < 40; ++i) silent.push_back(server.connect_to("127.0.0.1"));
  EXPECT_TRUE(server.get("/state").starts_with("HTTP/1.1 200 OK"));
  for (std::size_t i = 20; i < silent.size(); ++i) ::close(silent[i]);
}

TEST(CliWatch, WhileItTrains) {
  const Folder folder;
  const Served server({"train", "lenet5", "--watch", "epochs=100000", "data.train=200", "data.test=20", "batch=20"});
  ASSERT_GT(server.port(), 0);
  std::string first, second;
  const auto epochs = [&] {
    const std::string state = server.get("/state");
    const auto json = nlohmann::json::parse(state.substr(state.find("\r\n\r\n")));
    EXPECT_EQ(json["state"], "training") << json;
    return json["text"].get<std::string>();
  };
  for (int i = 0; i < 200 && (first.empty() || contains(first, "epoch 0 of")); ++i, first = epochs())
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int i = 0; i < 200 && (second.empty() || second == first); ++i, second = epochs())
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(first, second);
  EXPECT_TRUE(contains(server.get("/page"), "Curves"));
}

TEST(CliWatch, NeedsARun) {
  const Folder folder;
  const Result result = varve_command("watch nowhere");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "error: 'nowhere' is not the folder of a run, such as runs/lenet5-1.\n");
}

}  // namespace
#endif
