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
#include "varve/version.h"

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

// Waits until the meeting has named somebody.
std::string failure_of(const MeetingServer& server) {
  for (int i = 0; i < 100 && server.failure().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return server.failure();
}

TEST(Meeting, WhoHasLeftWhileOthersWaitIsNamed) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  {
    MeetingClient second(at(server), 1, two_with("k"));
    first.begun(7);
    second.begun(7);
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(server.failure(), "");  // it had done its part
  first.begun(8);
  EXPECT_NE(failure_of(server).find("rank 1"), std::string::npos);
  EXPECT_NE(server.failure().find("ended in order"), std::string::npos) << server.failure();
  EXPECT_EQ(server.blamed(), 1);
}

TEST(Meeting, WhoFailedIsNamedWithItsError) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  {
    MeetingClient second(at(server), 1, two_with("k"));
    second.last_words("no such table.");
  }
  EXPECT_NE(failure_of(server).find("failed: no such table"), std::string::npos) << server.failure();
}

TEST(Meeting, WordsOfAnErrorThatWasCaughtAreForgotten) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  {
    MeetingClient second(at(server), 1, two_with("k"));
    second.last_words("no such table.");
    second.begun(1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(server.failure(), "");
}

TEST(Meeting, WhoIsBehindIsNamedWhenAConnectionBreaks) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k")), second(at(server), 1, two_with("k"));
  first.begun(5);
  second.begun(4);
  first.lost("waited 600 s");
  EXPECT_NE(failure_of(server).find("rank 1"), std::string::npos);
  EXPECT_NE(server.failure().find("is alive"), std::string::npos) << server.failure();
}

TEST(Meeting, WhoComesWhenTheJobHasFailedIsToldWhy) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  server.fail("rank 1 was ended by signal 9", 1);
  EXPECT_NE(error_of([&] { MeetingClient(at(server), 0, two_with("k")); }).find("signal 9"), std::string::npos);
}

TEST(Meeting, AServerThatIsSilentIsNamed) {
  const Socket listening = listen_on("127.0.0.1", 0);
  std::thread silent([&] {  // lets both connections in, and says no more
    std::vector<Socket> kept;
    while (kept.size() < 2) {
      Socket socket = accept_from(listening);
      if (!socket.open()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      send_frame(socket, meeting::frame_of(meeting::kAccept));
      kept.push_back(std::move(socket));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  });
  MeetingOptions options = two_with("k");
  options.silent_seconds = 1.5;
  const MeetingClient client("127.0.0.1:" + std::to_string(port_of(listening)), 0, options);
  for (int i = 0; i < 70 && client.failure().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(client.failure().find("has been silent"), std::string::npos) << client.failure();
  silent.join();
}

// Strangers who take every place and say nothing, or one byte now and then, or noise.
TEST(Meeting, StrangersDoNotKeepRanksOut) {
  MeetingServer server("127.0.0.1", 0, two_with("k"));
  MeetingClient first(at(server), 0, two_with("k"));
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_to("127.0.0.1", server.port()));
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round)
    for (const Socket& stranger : strangers) {
      std::string noise(random() % 8 == 0 ? random() % 3000 : 1, '\0');
      for (char& byte : noise) byte = static_cast<char>(random());
      static_cast<void>(!::send(stranger.fd(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  MeetingClient second(at(server), 1, two_with("k"), 5);
  second.set("c", "in");
  EXPECT_EQ(first.get("c"), "in");
  EXPECT_EQ(server.failure(), "");
}

// A member's frames with lengths that lie.
TEST(Meeting, FramesThatLieEndTheirConnectionAlone) {
  MeetingServer server("127.0.0.1", 0, {.ranks = 3, .key = "k"});
  MeetingClient first(at(server), 0, {.ranks = 3, .key = "k"});
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const Socket member = connect_to("127.0.0.1", server.port());
    std::string hello(1, meeting::kHello);
    put_number(hello, 2);
    put_number(hello, meeting::kControl);
    for (const char* text : {"k", version(), "somebody"}) put_text(hello, text);
    std::string answer;
    if (!send_frame(member, hello) || !receive_frame(member, answer, 5)) continue;  // the one before is still there
    std::string lies;
    for (int i = 0; i < 5; ++i) {
      put_number(lies, random() % 3 == 0 ? static_cast<std::uint32_t>(random()) : random() % 20);
      lies += "sgbflq"[random() % 6];
      lies.append(random() % 30, static_cast<char>(random()));
    }
    static_cast<void>(!::send(member.fd(), lies.data(), lies.size(), MSG_NOSIGNAL));
  }
  first.set("d", "well");
  EXPECT_EQ(first.get("d"), "well");
}

TEST(Meeting, APortThatIsTakenIsSaid) {
  const MeetingServer server("127.0.0.1", 0, two_with("k"));
  EXPECT_NE(error_of([&] { MeetingServer("127.0.0.1", server.port(), two_with("k")); }).find("cannot listen"),
            std::string::npos);
}

}  // namespace
}  // namespace varve::test
