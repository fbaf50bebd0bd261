// A stand-in for an MLflow server that gives the answers of a test and keeps
// the requests. It checks nothing; tests/e2e/observe/mlflow_server.py does.
//
// Thread-safety: all functions from any thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace httplib {
struct Request;
struct Response;
class Server;
}  // namespace httplib

namespace gpupool::client {

class FakeTracking {
 public:
  struct Answer {
    int status = 200;
    std::string body = "{}";
    bool hangs = false;  // until the server ends
    std::string location = {};
  };
  struct Received {
    std::string method;
    std::string target;  // path and query
    std::string authorization;
    nlohmann::json body;  // discarded if it is no JSON
  };

  FakeTracking();
  ~FakeTracking();

  // Returns "http://127.0.0.1:PORT".
  std::string url() const;

  // Adds an answer for a call, as in "runs/create". The last one is given again
  // and again. Calls without answers get HTTP 404.
  void Give(const std::string& call, Answer answer);
  // Returns the requests of a call in their order.
  std::vector<Received> Of(const std::string& call) const;
  size_t Count(const std::string& call) const { return Of(call).size(); }

 private:
  void Serve(const httplib::Request& request, httplib::Response& response);

  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  absl::Notification ended_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::deque<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<Received>> received_
      ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace gpupool::client
