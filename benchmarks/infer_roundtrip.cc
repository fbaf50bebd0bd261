// How much does a served model cost compared with gRPC itself? Calls ModelInfer
// with one row on a running gpupoold, and sends the same bytes to a bare gRPC
// server and back (callback API, separate process), in turns in the same run.
//
//   infer_roundtrip --address HOST:PORT --model NAME [--seconds S] [--rounds N]
//                   [--concurrency N,N] [--peer HOST:PORT] [--server-pid PID]
//                   [--http HOST:PORT] [--idle-streams N]
//                   [--bench NAME] [--case NAME]
//
// Prints one JSON line per figure, for each number of requests in flight: p50
// and p99 in microseconds, and requests per second. Figures are medians over
// the rounds.
//   --peer          another gpupoold with the model is the peer, not the echo
//   --server-pid    adds the voluntary context switches for each request
//   --http          ours are requests over HTTP with binary data, and the peer
//                   is the same server over gRPC
//   --idle-streams  ours is the server with so many idle streams, and the peer
//                   is the same server without
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmarks/roundtrip/echo.h"
#include "benchmarks/roundtrip/fail.h"
#include "benchmarks/roundtrip/figures.h"
#include "benchmarks/roundtrip/grpc_loop.h"
#include "benchmarks/roundtrip/http_loop.h"
#include "benchmarks/roundtrip/switches.h"

namespace gpupool::benchmarks {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using Seconds = std::chrono::duration<double>;

struct Options {
  std::string address = "127.0.0.1:8001";
  std::string model = "digits";
  double seconds = 0.5;
  int rounds = 5;
  std::vector<int> concurrency = {1, 8, 64};
  std::string peer;
  std::string http;
  int idle_streams = 0;
  pid_t server_pid = 0;
  Names names;
};

// Returns a request with one row of the model's input, whose id is the number
// of bytes of the answer.
ModelInferRequest MakeRequest(Stub& stub, const std::string& model) {
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
  request.set_id(std::to_string(response.raw_output_contents(0).size()));
  return request;
}

// One side of a comparison: runs so many requests at a time for a round.
struct Side {
  std::function<Figures(int concurrency)> run;
  pid_t pid = 0;  // of the server; 0: its switches are not counted
};

Figures RunRound(const Side& side, int concurrency) {
  const uint64_t before = side.pid == 0 ? 0 : VoluntarySwitches(side.pid);
  Figures figures = side.run(concurrency);
  if (side.pid != 0) {
    figures.switches =
        static_cast<double>(VoluntarySwitches(side.pid) - before) /
        static_cast<double>(figures.requests);
  }
  return figures;
}

void Compare(const Options& options, const Side& ours, const Side& peer,
             int concurrency) {
  std::vector<Figures> our_rounds, peer_rounds;
  // The first round warms up.
  for (int round = -1; round < options.rounds; ++round) {
    const Figures own = RunRound(ours, concurrency);
    const Figures other = RunRound(peer, concurrency);
    if (round < 0) continue;
    our_rounds.push_back(own);
    peer_rounds.push_back(other);
  }
  const std::string name = "c" + std::to_string(concurrency);
  const auto print = [&](const std::string& figure, const std::string& unit,
                         double Figures::*field) {
    Print(options.names, name + "-" + figure, unit,
          {Median(our_rounds, field), Median(peer_rounds, field)});
  };
  print("p50", "us", &Figures::p50_us);
  print("p99", "us", &Figures::p99_us);
  print("throughput", "requests/s", &Figures::per_second);
  if (ours.pid != 0 && peer.pid != 0) {
    print("switches", "switches/request", &Figures::switches);
  }
}

void Run(const Options& options) {
  std::optional<EchoProcess> echo;
  const bool with_itself = !options.http.empty() || options.idle_streams > 0;
  // The echo must fork before this process has threads.
  if (options.peer.empty() && !with_itself) echo.emplace();
  const auto stub = Connect(options.address);
  const auto peer_stub =
      Connect(echo ? echo->address()
                   : (options.peer.empty() ? options.address : options.peer));
  const ModelInferRequest request = MakeRequest(*stub, options.model);
  const Seconds seconds(options.seconds);
  const auto grpc_side = [&](Stub& target) {
    return [&](int concurrency) {
      return GrpcLoop(&target, request, concurrency).Run(seconds);
    };
  };
  Side ours{grpc_side(*stub), options.server_pid};
  const Side peer{grpc_side(*peer_stub), echo ? echo->pid() : 0};
  if (!options.http.empty()) {
    ours.run = [&](int concurrency) {
      return RunHttpLoop(options.http, request, concurrency, seconds);
    };
  } else if (options.idle_streams > 0) {
    ours.run = [&](int concurrency) {
      const IdleStreams idle(options.address, options.idle_streams);
      return GrpcLoop(stub.get(), request, concurrency).Run(seconds);
    };
  }
  for (int concurrency : options.concurrency) {
    Compare(options, ours, peer, concurrency);
  }
}

}  // namespace
}  // namespace gpupool::benchmarks

int main(int argc, char** argv) {
  using gpupool::benchmarks::Options;
  CLI::App app{"ModelInfer beside a bare gRPC echo of the same bytes"};
  Options options;
  bool echo_server = false;
  app.add_option("--peer", options.peer, "another gpupoold, as the peer");
  app.add_option("--http", options.http,
                 "gpupoold's HTTP port, to compare with its gRPC port");
  app.add_option("--idle-streams", options.idle_streams,
                 "idle streams, to compare with none")
      ->check(CLI::Range(0, 100'000));
  app.add_option("--server-pid", options.server_pid,
                 "gpupoold, to count its context switches");
  app.add_option("--bench", options.names.bench, "the name of the benchmark");
  app.add_option("--case", options.names.prefix,
                 "what the names of cases begin with");
  app.add_option("--address", options.address, "of gpupoold's gRPC port");
  app.add_option("--model", options.model, "a served model with FP32 inputs");
  app.add_option("--concurrency", options.concurrency, "requests in flight")
      ->delimiter(',')
      ->check(CLI::Range(1, 10'000));
  app.add_option("--seconds", options.seconds, "of each round")
      ->check(CLI::Range(0.05, 60.0));
  app.add_option("--rounds", options.rounds, "whose median is taken")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--echo-server", echo_server)->group("");
  CLI11_PARSE(app, argc, argv);
  if (echo_server) return gpupool::benchmarks::RunEchoServer();
  gpupool::benchmarks::Run(options);
  return 0;
}
