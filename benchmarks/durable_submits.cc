// How many jobs per second does a server accept, if each is on disk when its
// client gets the answer?
//
//   durable_submits server --address HOST:PORT [--clients N] [--jobs N]
//                          [--specs N]
//   durable_submits sqlite --folder DIR [--group N] [--jobs N] [--bytes N]
//   durable_submits fsync  --folder DIR [--bytes N]
//
// `server`: clients with separate connections, each with one submission in
// flight. The jobs train a small perceptron on the dataset "digits" and have
// `--specs` different specs. `sqlite`: bare SQLite writes the same rows (WAL,
// synchronous=FULL), `--group` jobs per transaction. This is the limit of the
// store if nothing else took time. `fsync`: appends and fdatasyncs per second.
// Prints one JSON object.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gpupool/v1/job.grpc.pb.h"
#include "nlohmann/json.hpp"

namespace {

namespace v1 = gpupool::v1;
using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "durable_submits: " << what << "\n";
  std::exit(1);
}

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Quantile(std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share *
                                    static_cast<double>(sorted.size() - 1))];
}

// -------------------------------------------------------------- the server

// Returns spec `number`. The specs differ in the size of their hidden layer.
v1::JobSpec SpecOf(int number) {
  v1::JobSpec spec;
  spec.mutable_model()->add_input_shape(64);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(
      static_cast<uint32_t>(32 + number));
  spec.mutable_model()->add_layers()->mutable_relu();
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  spec.mutable_data()->set_dataset("digits");
  spec.mutable_data()->mutable_scaling()->set_multiply(0.0625);
  spec.mutable_training()->mutable_cross_entropy();
  spec.mutable_training()->mutable_adam();
  spec.mutable_training()->set_batch_size(32);
  spec.mutable_training()->set_steps(1000);
  return spec;
}

struct Load {
  std::string address;
  int clients = 64;
  int64_t jobs = 20000;
  int specs = 1;
};

// A client that makes one submission after the other.
class LoadClient {
 public:
  LoadClient(const Load& load, int number, std::atomic<int64_t>* next)
      : load_(load), next_(next) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::JobService::NewStub(grpc::CreateCustomChannel(
        load.address, grpc::InsecureChannelCredentials(), arguments));
    request_ids_ = std::to_string(getpid()) + "-" + std::to_string(number);
  }

  void Begin() {
    const int64_t job = (*next_)++;
    if (job >= load_.jobs) return done_.set_value();
    context_ = std::make_unique<grpc::ClientContext>();
    v1::SubmitJobRequest request;
    request.set_request_id(request_ids_ + "-" + std::to_string(job));
    *request.mutable_spec() = SpecOf(static_cast<int>(job % load_.specs));
    request.mutable_spec()->set_name("job-" + std::to_string(job));
    request_ = std::move(request);
    start_ = Clock::now();
    stub_->async()->SubmitJob(context_.get(), &request_, &job_,
                              [this](const grpc::Status& status) {
                                if (!status.ok()) Fail(status.error_message());
                                seconds_.push_back(Since(start_));
                                bytes_ = job_.ByteSizeLong();
                                Begin();
                              });
  }

  void Wait() { done_.get_future().wait(); }
  const std::vector<double>& seconds() const { return seconds_; }
  size_t bytes() const { return bytes_; }

 private:
  const Load& load_;
  std::atomic<int64_t>* const next_;
  std::unique_ptr<v1::JobService::Stub> stub_;
  std::string request_ids_;
  std::unique_ptr<grpc::ClientContext> context_;
  v1::SubmitJobRequest request_;
  v1::Job job_;
  Clock::time_point start_;
  std::vector<double> seconds_;
  size_t bytes_ = 0;
  std::promise<void> done_;
};

nlohmann::json RunLoad(const Load& load) {
  std::atomic<int64_t> next = 0;
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (int i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<LoadClient>(load, i, &next));
  }
  const Clock::time_point start = Clock::now();
  for (auto& client : clients) client->Begin();
  for (auto& client : clients) client->Wait();
  const double seconds = Since(start);
  std::vector<double> all;
  for (auto& client : clients) {
    all.insert(all.end(), client->seconds().begin(), client->seconds().end());
  }
  std::sort(all.begin(), all.end());
  return {{"jobs_per_second", static_cast<double>(load.jobs) / seconds},
          {"p50_ms", 1e3 * Quantile(all, 0.5)},
          {"p99_ms", 1e3 * Quantile(all, 0.99)},
          {"row_bytes", clients.front()->bytes()}};
}

// --------------------------------------------------------------- the peers

struct PeerOptions {
  std::string folder;
  int group = 64;
  int64_t jobs = 20000;
  int bytes = 1000;
};

void Check(int code, sqlite3* database) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return;
  Fail(sqlite3_errmsg(database));
}

nlohmann::json RunSqlite(const PeerOptions& options) {
  const std::string path = options.folder + "/peer.db";
  sqlite3* database = nullptr;
  Check(sqlite3_open(path.c_str(), &database), database);
  const auto run = [&](const char* sql) {
    Check(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), database);
  };
  run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
      "CREATE TABLE jobs(id INTEGER PRIMARY KEY, request TEXT UNIQUE, row "
      "BLOB);"
      "CREATE TABLE events(job INTEGER, sequence INTEGER, row BLOB,"
      " PRIMARY KEY(job, sequence)) WITHOUT ROWID");
  sqlite3_stmt* job = nullptr;
  sqlite3_stmt* event = nullptr;
  sqlite3_prepare_v2(database, "INSERT INTO jobs VALUES(?, ?, ?)", -1, &job,
                     nullptr);
  sqlite3_prepare_v2(database, "INSERT INTO events VALUES(?, 1, ?)", -1, &event,
                     nullptr);
  const std::string row(static_cast<size_t>(options.bytes), 'x');
  const Clock::time_point start = Clock::now();
  for (int64_t id = 1; id <= options.jobs;) {
    run("BEGIN IMMEDIATE");
    for (int i = 0; i < options.group && id <= options.jobs; ++i, ++id) {
      const std::string request = "request-" + std::to_string(id);
      sqlite3_bind_int64(job, 1, id);
      sqlite3_bind_text(job, 2, request.data(),
                        static_cast<int>(request.size()), SQLITE_STATIC);
      sqlite3_bind_blob(job, 3, row.data(), options.bytes, SQLITE_STATIC);
      Check(sqlite3_step(job), database);
      sqlite3_reset(job);
      sqlite3_bind_int64(event, 1, id);
      sqlite3_bind_blob(event, 2, row.data(), 50, SQLITE_STATIC);
      Check(sqlite3_step(event), database);
      sqlite3_reset(event);
    }
    run("COMMIT");
  }
  const double seconds = Since(start);
  sqlite3_finalize(job);
  sqlite3_finalize(event);
  sqlite3_close(database);
  for (const char* suffix : {"", "-wal", "-shm"}) {
    unlink((path + suffix).c_str());
  }
  return {{"jobs_per_second", static_cast<double>(options.jobs) / seconds}};
}

nlohmann::json RunFsync(const PeerOptions& options) {
  const std::string path = options.folder + "/peer.bin";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) Fail("cannot write " + path);
  const std::string bytes(static_cast<size_t>(options.bytes), 'x');
  int64_t count = 0;
  const Clock::time_point start = Clock::now();
  while (Since(start) < 2) {
    if (write(fd, bytes.data(), bytes.size()) < 0 || fdatasync(fd) != 0) {
      Fail("cannot write " + path);
    }
    ++count;
  }
  const double seconds = Since(start);
  close(fd);
  unlink(path.c_str());
  return {{"fsyncs_per_second", static_cast<double>(count) / seconds}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("durable submissions per second");
  app.require_subcommand(1);
  Load load;
  CLI::App* server = app.add_subcommand("server");
  server->add_option("--address", load.address)->required();
  server->add_option("--clients", load.clients);
  server->add_option("--jobs", load.jobs);
  server->add_option("--specs", load.specs);
  PeerOptions options;
  CLI::App* sqlite = app.add_subcommand("sqlite");
  sqlite->add_option("--folder", options.folder)->required();
  sqlite->add_option("--group", options.group);
  sqlite->add_option("--jobs", options.jobs);
  sqlite->add_option("--bytes", options.bytes);
  CLI::App* raw = app.add_subcommand("fsync");
  raw->add_option("--folder", options.folder)->required();
  raw->add_option("--bytes", options.bytes);
  CLI11_PARSE(app, argc, argv);
  nlohmann::json result;
  if (*server) result = RunLoad(load);
  if (*sqlite) result = RunSqlite(options);
  if (*raw) result = RunFsync(options);
  std::cout << result.dump() << "\n";
  return 0;
}
