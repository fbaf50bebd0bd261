// How much does a served model cost compared with gRPC itself? Calls ModelInfer
// with one row on a running gpupoold, and sends the same bytes to a bare gRPC
// server and back (callback API, separate process), in turns in the same run.
//
//   infer_roundtrip --address HOST:PORT --model NAME [--seconds S] [--rounds N]
//                   [--peer HOST:PORT] [--bench NAME] [--case NAME]
//
// With --peer another gpupoold with the model is the peer, instead of the echo.
// Prints one JSON line per figure: p50 and p99 in microseconds, and requests
// per second, at 1, 8 and 64 requests in flight. Figures are medians over the
// rounds.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "inference/grpc_service.grpc.pb.h"
#include "nlohmann/json.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using Stub = GRPCInferenceService::Stub;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "infer_roundtrip: " << what << "\n";
  std::exit(1);
}

// ---------------------------------------------------------------- the peer

// Answers every request with as many bytes as the model would. Its cost is that
// of gRPC, the messages and the network.
class EchoService : public GRPCInferenceService::CallbackService {
 public:
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const ModelInferRequest* request,
                                       ModelInferResponse* response) override {
    response->set_model_name(request->model_name());
    response->set_model_version("1");
    auto* output = response->add_outputs();
    output->set_name("output");
    output->set_datatype("FP32");
    output->add_shape(1);
    // The request's id is the number of bytes to send back.
    response->add_raw_output_contents(
        std::string(std::atoi(request->id().c_str()), 'x'));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int RunEchoServer() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::cout << port << std::endl;
  server->Wait();
  return 0;
}

class EchoProcess {
 public:
  EchoProcess() {
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) Fail("pipe failed");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      execl("/proc/self/exe", "infer_roundtrip", "--echo-server", nullptr);
      _exit(127);
    }
    close(pipe_fds[1]);
    char text[16] = {};
    if (read(pipe_fds[0], text, sizeof(text) - 1) <= 0) {
      Fail("the echo server did not start");
    }
    close(pipe_fds[0]);
    address_ = "127.0.0.1:" + std::to_string(std::atoi(text));
  }
  ~EchoProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

// ---------------------------------------------------------------- the load

struct Figures {
  double p50_us = 0;
  double p99_us = 0;
  double per_second = 0;
};

// Keeps `concurrency` requests in flight for some time.
class ClosedLoop {
 public:
  ClosedLoop(Stub* stub, const ModelInferRequest& request, int concurrency)
      : stub_(stub), request_(request), callers_(concurrency) {}

  Figures Run(std::chrono::duration<double> seconds) {
    const Clock::time_point start = Clock::now();
    active_ = static_cast<int>(callers_.size());
    for (Caller& caller : callers_) Send(caller);
    std::this_thread::sleep_for(seconds);
    stop_ = true;
    while (active_ > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Summarise(Clock::now() - start);
  }

 private:
  struct Caller {
    std::unique_ptr<grpc::ClientContext> context;
    ModelInferResponse response;
    Clock::time_point sent;
    std::vector<double> latencies_us;
  };

  void Send(Caller& caller) {
    caller.context = std::make_unique<grpc::ClientContext>();
    caller.response.Clear();
    caller.sent = Clock::now();
    stub_->async()->ModelInfer(caller.context.get(), &request_,
                               &caller.response,
                               [this, &caller](const grpc::Status& status) {
                                 Receive(caller, status);
                               });
  }

  void Receive(Caller& caller, const grpc::Status& status) {
    if (!status.ok()) Fail("ModelInfer: " + status.error_message());
    caller.latencies_us.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - caller.sent)
            .count());
    if (stop_) {
      --active_;
    } else {
      Send(caller);
    }
  }

  Figures Summarise(std::chrono::duration<double> elapsed) {
    std::vector<double> all;
    for (const Caller& caller : callers_) {
      all.insert(all.end(), caller.latencies_us.begin(),
                 caller.latencies_us.end());
    }
    std::sort(all.begin(), all.end());
    return {.p50_us = all[all.size() / 2],
            .p99_us = all[all.size() * 99 / 100],
            .per_second = static_cast<double>(all.size()) / elapsed.count()};
  }

  Stub* const stub_;
  const ModelInferRequest& request_;
  std::vector<Caller> callers_;
  std::atomic<bool> stop_{false};
  std::atomic<int> active_{0};
};

// ------------------------------------------------------------- the figures

double Median(std::vector<Figures> rounds, double Figures::*field) {
  std::vector<double> values;
  for (const Figures& figures : rounds) values.push_back(figures.*field);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Rounded(double value, double steps_per_unit) {
  return std::round(value * steps_per_unit) / steps_per_unit;
}

struct Names {
  std::string bench = "infer-roundtrip";
  std::string prefix;  // of cases
};

struct Pair {
  double ours = 0;
  double peer = 0;
};

void Print(const Names& names, const std::string& figure,
           const std::string& unit, Pair values) {
  std::cout << nlohmann::ordered_json(
                   {{"bench", names.bench},
                    {"case", names.prefix + figure},
                    {"ours", Rounded(values.ours, 10)},
                    {"peer", Rounded(values.peer, 10)},
                    {"ratio", Rounded(values.ours / values.peer, 1000)},
                    {"unit", unit}})
            << std::endl;
}

struct Target {
  explicit Target(const std::string& address)
      : stub(GRPCInferenceService::NewStub(grpc::CreateChannel(
            address, grpc::InsecureChannelCredentials()))) {}
  std::unique_ptr<Stub> stub;
};

// Returns a request with one row of the model's input. `output_bytes` receives
// the bytes of the answer.
ModelInferRequest MakeRequest(Stub& stub, const std::string& model,
                              size_t* output_bytes) {
  grpc::ClientContext context;
  inference::ModelMetadataRequest question;
  question.set_name(model);
  inference::ModelMetadataResponse metadata;
  const grpc::Status status = stub.ModelMetadata(&context, question, &metadata);
  if (!status.ok()) Fail("ModelMetadata: " + status.error_message());
  ModelInferRequest request;
  request.set_model_name(model);
  for (const auto& tensor : metadata.inputs()) {
    if (tensor.datatype() != "FP32") Fail("only FP32 inputs are measured");
    auto* input = request.add_inputs();
    input->set_name(tensor.name());
    input->set_datatype(tensor.datatype());
    int64_t elements = 1;
    for (int64_t size : tensor.shape()) {
      input->add_shape(size < 0 ? 1 : size);
      elements *= size < 0 ? 1 : size;
    }
    const std::vector<float> values(elements, 0.5f);
    request.add_raw_input_contents(values.data(), elements * sizeof(float));
  }
  grpc::ClientContext infer_context;
  ModelInferResponse response;
  const grpc::Status answered =
      stub.ModelInfer(&infer_context, request, &response);
  if (!answered.ok()) Fail("ModelInfer: " + answered.error_message());
  *output_bytes = response.raw_output_contents(0).size();
  request.set_id(std::to_string(*output_bytes));
  return request;
}

// Requests in flight of one case, and its rounds.
struct Load {
  int concurrency = 1;
  int rounds = 1;
  double seconds = 0;  // length of each round
  Names names;
};

void Measure(Stub& ours, Stub& peer, const ModelInferRequest& request,
             const Load& load) {
  const std::chrono::duration<double> duration(load.seconds);
  const auto run = [&](Stub& stub) {
    return ClosedLoop(&stub, request, load.concurrency).Run(duration);
  };
  std::vector<Figures> our_rounds, peer_rounds;
  // The first round warms up.
  for (int round = -1; round < load.rounds; ++round) {
    const Figures own = run(ours);
    const Figures echo = run(peer);
    if (round < 0) continue;
    our_rounds.push_back(own);
    peer_rounds.push_back(echo);
  }
  const std::string name = "c" + std::to_string(load.concurrency);
  const auto print = [&](const std::string& figure, const std::string& unit,
                         double Figures::*field) {
    Print(load.names, name + "-" + figure, unit,
          {Median(our_rounds, field), Median(peer_rounds, field)});
  };
  print("p50", "us", &Figures::p50_us);
  print("p99", "us", &Figures::p99_us);
  print("throughput", "requests/s", &Figures::per_second);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"ModelInfer beside a bare gRPC echo of the same bytes"};
  std::string address = "127.0.0.1:8001";
  std::string model = "digits";
  double seconds = 0.5;
  int rounds = 5;
  bool echo_server = false;
  std::string peer_address;
  Names names;
  app.add_option("--peer", peer_address, "another gpupoold, as the peer");
  app.add_option("--bench", names.bench, "the name of the benchmark");
  app.add_option("--case", names.prefix, "what the names of cases begin with");
  app.add_option("--address", address, "of gpupoold's gRPC port");
  app.add_option("--model", model, "a served model with FP32 inputs");
  app.add_option("--seconds", seconds, "of each round")
      ->check(CLI::Range(0.05, 60.0));
  app.add_option("--rounds", rounds, "whose median is taken")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--echo-server", echo_server)->group("");
  CLI11_PARSE(app, argc, argv);
  if (echo_server) return RunEchoServer();

  std::optional<EchoProcess> echo;
  if (peer_address.empty()) {
    echo.emplace();  // must fork before this process has threads
    peer_address = echo->address();
  }
  Target ours(address);
  Target peer(peer_address);
  size_t output_bytes = 0;
  const ModelInferRequest request =
      MakeRequest(*ours.stub, model, &output_bytes);
  for (int concurrency : {1, 8, 64}) {
    Measure(*ours.stub, *peer.stub, request,
            {.concurrency = concurrency,
             .rounds = rounds,
             .seconds = seconds,
             .names = names});
  }
  return 0;
}
