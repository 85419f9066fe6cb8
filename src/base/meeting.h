// Where the ranks of a job meet: a table of keys and values that all of them see, and the news of which rank is gone.
// A small service of the launcher, or of rank 0 where somebody else started the job. Collectives do not pass through
// it; their engine has connections of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace varve {

struct MeetingOptions {
  int ranks = 1;
  std::string key;             // processes without it are turned away
  double silent_seconds = 10;  // who is not heard of for so long is taken for dead
};

std::string random_key();  // of 32 letters, that nobody guesses

// Listens on one address, and only there.
class MeetingServer {
 public:
  MeetingServer(const std::string& host, int port, MeetingOptions options);  // port 0: any; throws Error: taken
  ~MeetingServer();
  MeetingServer(const MeetingServer&) = delete;
  MeetingServer& operator=(const MeetingServer&) = delete;
  int port() const;
  std::string failure() const;      // what was told to all; empty while all is well
  int blamed() const;               // the rank that it names; -1: none
  bool has_joined(int rank) const;  // and has not left
  void fail(const std::string& why, int rank = -1);
  void ended(int rank, const std::string& how);     // "": in order; if the others wait for it, that is a failure too
  void pass_on(int signal);                         // to all ranks, wherever they run
  std::string value(const std::string& key) const;  // empty: nobody has set it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A rank's part. Beats by a thread of its own, so that a rank that computes for minutes is still heard.
class MeetingClient {
 public:
  // Waits until the server is there. Throws Error: nobody answers, another key, another version of Varve.
  MeetingClient(const std::string& address, int rank, const MeetingOptions& options, double seconds = 60);
  ~MeetingClient();
  MeetingClient(const MeetingClient&) = delete;
  MeetingClient& operator=(const MeetingClient&) = delete;

  void set(const std::string& key, const std::string& value);
  // Waits until somebody has set it: `whom`, in the error where nobody does in time.
  std::string get(const std::string& key, double seconds = 60, const std::string& whom = "another rank");
  std::string own_host() const;  // the address of this machine on the way to the meeting
  void on_failure(std::function<void(const std::string& why)> told);  // once, from the client's thread
  std::string failure() const;                                        // empty: none that we know of
  void fail(const std::string& why);                                  // tells the others, who end with this text
  // Collectives that this rank has begun, since the start: who has begun fewer is who the others wait for.
  void begun(std::uint64_t collectives);
  void last_words(
      const std::string& why);        // of the error with which this process ends, if it begins no collective more
  void lost(const std::string& why);  // a connection to other ranks broke: whose fault it is comes as the failure

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace varve
