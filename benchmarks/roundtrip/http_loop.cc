#include "benchmarks/roundtrip/http_loop.h"

#include <httplib.h>

#include <atomic>
#include <thread>
#include <vector>

#include "benchmarks/roundtrip/fail.h"
#include "nlohmann/json.hpp"

namespace gpupool::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

// A request as its JSON and the bytes of the tensors behind it.
struct HttpBody {
  size_t json_bytes = 0;
  std::string text;
};

HttpBody BodyOf(const inference::ModelInferRequest& request) {
  nlohmann::ordered_json inputs = nlohmann::json::array();
  std::string bytes;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const std::string& raw = request.raw_input_contents(i);
    inputs.push_back(
        {{"name", request.inputs(i).name()},
         {"datatype", request.inputs(i).datatype()},
         {"shape", std::vector<int64_t>(request.inputs(i).shape().begin(),
                                        request.inputs(i).shape().end())},
         {"parameters", {{"binary_data_size", raw.size()}}}});
    bytes += raw;
  }
  const std::string json =
      nlohmann::ordered_json({{"inputs", std::move(inputs)},
                              {"parameters", {{"binary_data_output", true}}}})
          .dump();
  return {.json_bytes = json.size(), .text = json + bytes};
}

}  // namespace

Figures RunHttpLoop(const std::string& address,
                    const inference::ModelInferRequest& request,
                    int concurrency, std::chrono::duration<double> seconds) {
  const HttpBody body = BodyOf(request);
  const std::string path = "/v2/models/" + request.model_name() + "/infer";
  const httplib::Headers headers = {
      {"Inference-Header-Content-Length", std::to_string(body.json_bytes)}};
  std::atomic<bool> stop{false};
  std::vector<std::vector<double>> latencies_us(concurrency);
  const auto call = [&](std::vector<double>& mine) {
    httplib::Client client("http://" + address);
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    while (!stop) {
      const Clock::time_point sent = Clock::now();
      const auto answer =
          client.Post(path, headers, body.text, "application/octet-stream");
      if (!answer || answer->status != 200) {
        Fail("HTTP infer: " +
             (answer ? answer->body : to_string(answer.error())));
      }
      mine.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - sent)
              .count());
    }
  };
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> threads;
  for (auto& mine : latencies_us) threads.emplace_back([&] { call(mine); });
  std::this_thread::sleep_for(seconds);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& mine : latencies_us) {
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return Summarise(std::move(all), Clock::now() - start);
}

}  // namespace gpupool::benchmarks
