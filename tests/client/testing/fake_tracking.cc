#include "tests/client/testing/fake_tracking.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include "absl/strings/str_cat.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

// Tests may put a path in front of it.
constexpr char kCalls[] = "/api/2.0/mlflow/";

}  // namespace

FakeTracking::FakeTracking() : server_(std::make_unique<httplib::Server>()) {
  const auto serve = [this](const httplib::Request& request,
                            httplib::Response& response) {
    Serve(request, response);
  };
  server_->Get(".*", serve);
  server_->Post(".*", serve);
  // A connection that says nothing is of a client that speaks TLS.
  server_->set_keep_alive_timeout(1);
  server_->set_read_timeout(1);
  port_ = server_->bind_to_any_port("127.0.0.1");
  thread_ = std::jthread([this] { server_->listen_after_bind(); });
  // A server that does not run yet cannot be stopped.
  EXPECT_TRUE(WaitUntil([this] { return server_->is_running(); }));
}

FakeTracking::~FakeTracking() {
  ended_.Notify();
  server_->stop();
}

std::string FakeTracking::url() const {
  return absl::StrCat("http://127.0.0.1:", port_);
}

void FakeTracking::Give(const std::string& call, Answer answer) {
  absl::MutexLock lock(&mutex_);
  answers_[call].push_back(std::move(answer));
}

std::vector<FakeTracking::Received> FakeTracking::Of(
    const std::string& call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = received_.find(call);
  return found == received_.end() ? std::vector<Received>() : found->second;
}

void FakeTracking::Serve(const httplib::Request& request,
                         httplib::Response& response) {
  const size_t at = request.path.find(kCalls);
  const std::string call = at == std::string::npos
                               ? request.path
                               : request.path.substr(at + sizeof(kCalls) - 1);
  Answer answer{.status = 404, .body = "<html>no such page</html>"};
  {
    absl::MutexLock lock(&mutex_);
    received_[call].push_back(
        {.method = request.method,
         .target = request.target,
         .authorization = request.get_header_value("Authorization"),
         .body = nlohmann::json::parse(request.body, nullptr, false)});
    std::deque<Answer>& answers = answers_[call];
    if (!answers.empty()) answer = answers.front();
    if (answers.size() > 1) answers.pop_front();
  }
  if (answer.hangs) ended_.WaitForNotification();
  response.status = answer.status;
  if (!answer.location.empty()) {
    response.set_header("Location", answer.location);
  }
  response.set_content(answer.body, "application/json");
}

}  // namespace gpupool::client
