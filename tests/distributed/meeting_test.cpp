// The place where ranks meet: who is let in, who is named, and what strangers can do.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/meeting.h"
#include "base/meeting_words.h"
#include "base/sockets.h"
#include "distributed/ranks.h"

namespace varve::test {
namespace {

MeetingOptions two_with(const std::string& key) { return {.ranks = 2, .key = key}; }
std::string at(const MeetingServer& server) { return "127.0.0.1:" + std::to_string(server.port()); }

TEST(Meeting, ValuesAreSeenByAll) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k")), second(at(server), 1, two_with("k"));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    first.set("a", std::string("x\0y", 3));
  });
  EXPECT_EQ(second.get("a"), std::string("x\0y", 3));
  later.join();
  EXPECT_EQ(server.value("a"), std::string("x\0y", 3));
  EXPECT_EQ(server.failure(), "");
  EXPECT_NE(error_of([&] { second.get("nobody sets it", 0.3); }).find("waited"), std::string::npos);
}

TEST(Meeting, NobodyJoinsWithoutTheKeyTwiceOrAsARankTooMany) {
  MeetingServer server("127.0.0.1", 0, two_with("right"));
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("wrong")); }).find("key"), std::string::npos);
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("")); }).find("key"), std::string::npos);
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 2, two_with("right")); }).find("2 ranks"), std::string::npos);
  const MeetingClient one(at(server), 0, two_with("right"));
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("right")); }).find("already"), std::string::npos);
}

TEST(Meeting, HostileBytesHarmNobody) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  for (const std::string& bytes :
       {std::string(100000, '\xff'), std::string("\0\0\0\0", 4), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\x05\0\0\0hhhhh", 9), std::string("\x01\0\0\0s", 5)}) {
    const Socket stranger = connect_to("127.0.0.1", server.port());
    ASSERT_TRUE(stranger.open());
    send_frame(stranger, bytes);
    static_cast<void>(!::send(stranger.fd(), bytes.data(), bytes.size(), 0x4000));  // MSG_NOSIGNAL
  }
  first.set("b", "still here");
  EXPECT_EQ(first.get("b"), "still here");
  EXPECT_EQ(server.failure(), "");
}

TEST(Meeting, ASilentRankIsNamed) {
  MeetingOptions options = two_with("k");
  options.silent_seconds = 1.5;  // beats come every second
  MeetingServer server("127.0.0.1", 0, options);
  const pid_t child = fork();
  if (child == 0) {
    const MeetingClient second(at(server), 1, options);
    raise(SIGSTOP);
    _exit(0);
  }
  MeetingClient first(at(server), 0, options);
  for (int i = 0; i < 100 && first.failure().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NE(first.failure().find("rank 1"), std::string::npos) << first.failure();
  EXPECT_NE(first.failure().find("silent"), std::string::npos) << first.failure();
}

TEST(Meeting, APortThatIsTakenIsSaid) {
  const MeetingServer server("127.0.0.1", 0, two_with("k"));
  EXPECT_NE(error_of([&] { MeetingServer("127.0.0.1", server.port(), two_with("k")); }).find("cannot listen"),
            std::string::npos);
}

}  // namespace
}  // namespace varve::test
