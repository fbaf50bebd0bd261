// Runs the daemon's binary as a process, with workers whose engine is a
// stand-in.
#include "server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gpupool/v1/admin.grpc.pb.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"
#include "tests/test_paths.h"
#include "tests/tls/test_authority.h"
#include "tests/wait_until.h"

extern char** environ;

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)),
                     std::istreambuf_iterator<char>());
}

// A gpupoold process. The destructor kills it and ends its workers.
class Daemon {
 public:
  Daemon(const TempDir& directory, std::vector<std::string> more) {
    port_file_ = directory / "ports.json";
    log_ = directory / ("log" + std::to_string(absl::ToUnixNanos(absl::Now())));
    std::filesystem::remove(port_file_);
    std::vector<std::string> words = {BinaryPath("gpupoold"),
                                      "--state-dir",
                                      directory / "state",
                                      "--worker-binary",
                                      BinaryPath("gpupool-fake-worker"),
                                      "--port-file",
                                      port_file_,
                                      "--grpc-port",
                                      "0",
                                      "--http-port",
                                      "0",
                                      "--metrics-port",
                                      "0",
                                      "--devices",
                                      "cpu:2",
                                      "--device-memory",
                                      "64MiB"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log_.c_str(),
                                     O_WRONLY | O_CREAT, 0600);
    EXPECT_EQ(
        posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Daemon() {
    if (pid_ == 0) return;
    Signal(SIGTERM);
    Wait();
  }

  void AwaitServing() {
    ASSERT_TRUE(WaitUntil([&] {
      return std::filesystem::exists(port_file_) ||
             waitid(P_PID, pid_, nullptr, WEXITED | WNOHANG | WNOWAIT) < 0;
    })) << log();
    ports_ = nlohmann::json::parse(ReadFile(port_file_));
  }

  void Signal(int number) { kill(pid_, number); }
  // Waits for its end. Kills it if it does not end.
  bool Ends() {
    const bool ended = WaitUntil([&] {
      siginfo_t info = {};
      return waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
             info.si_pid != 0;
    });
    if (!ended) Signal(SIGKILL);
    return ended;
  }
  // Returns the exit code, or minus the signal that ended it.
  int Wait() {
    int state = 0;
    waitpid(std::exchange(pid_, 0), &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }

  std::string log() const { return ReadFile(log_); }
  int port(const char* name) const { return ports_.at(name).get<int>(); }
  std::shared_ptr<grpc::Channel> channel() const {
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(port("grpc_port")),
                               grpc::InsecureChannelCredentials());
  }

 private:
  std::string port_file_;
  std::string log_;
  pid_t pid_ = 0;
  nlohmann::json ports_;
};

std::vector<uint32_t> WorkerPids(const Daemon& daemon) {
  grpc::ClientContext context;
  v1::ListDevicesResponse devices;
  EXPECT_TRUE(v1::DeviceService::NewStub(daemon.channel())
                  ->ListDevices(&context, {}, &devices)
                  .ok());
  std::vector<uint32_t> pids;
  for (const auto& device : devices.devices()) {
    EXPECT_EQ(device.state(), v1::DEVICE_READY) << device.name();
    pids.push_back(device.worker_pid());
  }
  return pids;
}

bool Alive(uint32_t pid) { return kill(static_cast<pid_t>(pid), 0) == 0; }

TEST(ServerTest, ServesAfterThePortFileIsThereAndDrainsOnSigterm) {
  TempDir directory;
  Daemon daemon(directory, {});
  daemon.AwaitServing();
  EXPECT_GT(daemon.port("http_port"), 0);
  EXPECT_GT(daemon.port("metrics_port"), 0);
  const auto pids = WorkerPids(daemon);
  EXPECT_EQ(pids.size(), 2u);
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::AdminService::NewStub(daemon.channel())
                  ->GetServerInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.grpc_port(), static_cast<uint32_t>(daemon.port("grpc_port")));
  EXPECT_FALSE(info.boot_id().empty());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
  for (const uint32_t pid : pids) EXPECT_FALSE(Alive(pid));
}

TEST(ServerTest, DrainRpcWithStopEndsTheProcess) {
  TempDir directory;
  Daemon daemon(directory, {});
  daemon.AwaitServing();
  grpc::ClientContext context;
  v1::DrainRequest request;
  request.set_stop(true);
  v1::DrainResponse response;
  ASSERT_TRUE(v1::AdminService::NewStub(daemon.channel())
                  ->Drain(&context, request, &response)
                  .ok());
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

void StoreOneVersion(const std::string& state_dir) {
  std::filesystem::create_directory(state_dir);
  v1::ModelVersion version;
  version.set_id(1);
  version.set_model("digits");
  version.set_version(1);
  version.set_state(v1::UNLOADED);
  auto store = Store::Open(state_dir + "/gpupool.db");
  ASSERT_TRUE(store.ok()) << store.status();
  WriteBatch batch;
  batch.upsert_versions.push_back(version);
  ASSERT_TRUE((*store)->Commit(batch).ok());
}

TEST(ServerTest, CallThatWaitsForAWorkerDoesNotKeepTheServerFromEnding) {
  TempDir directory;
  StoreOneVersion(directory / "state");
  Daemon daemon(directory, {"--drain-grace", "1"});
  daemon.AwaitServing();
  const auto stub = v1::ModelService::NewStub(daemon.channel());
  for (const uint32_t pid : WorkerPids(daemon)) {
    kill(static_cast<pid_t>(pid), SIGSTOP);
  }
  grpc::Status waited;
  std::thread client([&] {
    grpc::ClientContext context;
    v1::LoadVersionRequest request;
    request.set_model("digits");
    request.set_wait(true);
    v1::ModelVersion version;
    waited = stub->LoadVersion(&context, request, &version);
  });
  EXPECT_TRUE(WaitUntil([&] {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    request.set_name("digits");
    v1::Model model;
    return stub->GetModel(&context, request, &model).ok() &&
           model.versions(0).state() == v1::LOADING;
  }));
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(daemon.Ends()) << daemon.log();
  EXPECT_EQ(daemon.Wait(), 0);
  client.join();
  EXPECT_FALSE(waited.ok());
}

TEST(ServerTest, NextDaemonAdoptsTheWorkersOfAKilledOne) {
  TempDir directory;
  std::vector<uint32_t> before;
  {
    Daemon daemon(directory, {});
    daemon.AwaitServing();
    before = WorkerPids(daemon);
    daemon.Signal(SIGKILL);
    EXPECT_EQ(daemon.Wait(), -SIGKILL);
  }
  Daemon daemon(directory, {});
  daemon.AwaitServing();
  EXPECT_EQ(WorkerPids(daemon), before);
}

TEST(ServerTest, SecondDaemonOnTheStateFolderIsRefused) {
  TempDir directory;
  Daemon first(directory, {});
  first.AwaitServing();
  Daemon second(directory, {});
  EXPECT_EQ(second.Wait(), 69);
  EXPECT_THAT(second.log(), HasSubstr("--state-dir"));
}

TEST(ServerTest, TakenPortIsRefusedWithItsFlag) {
  TempDir directory;
  TempDir other;
  Daemon first(directory, {});
  first.AwaitServing();
  for (const char* name : {"grpc_port", "http_port", "metrics_port"}) {
    std::string flag = std::string("--") + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    Daemon second(other, {flag, std::to_string(first.port(name))});
    EXPECT_EQ(second.Wait(), 69) << flag;
    EXPECT_THAT(second.log(), HasSubstr(std::to_string(first.port(name))));
  }
}

TEST(ServerTest, WrongUseIsRefusedWithAnExitCodeOfItsOwn) {
  TempDir directory;
  Daemon flag(directory, {"--grpc-prot", "1"});
  EXPECT_EQ(flag.Wait(), 64);
  Daemon gpu(directory, {"--devices", "cuda:0"});
  EXPECT_EQ(gpu.Wait(), 69);
  EXPECT_THAT(gpu.log(), HasSubstr("CUDA"));
  Daemon worker(directory, {"--worker-binary", "/nowhere/gpupool-worker"});
  EXPECT_EQ(worker.Wait(), 69);
  EXPECT_THAT(worker.log(), HasSubstr("/nowhere/gpupool-worker"));
}

TEST(ServerTest, WrongTlsFilesAreRefusedBeforeAnythingStarts) {
  TempDir directory;
  const tls::TestAuthority authority;
  const tls::TlsFiles sound = authority.Server("localhost");
  const tls::TlsFiles old = authority.Server("old", tls::Past());
  for (const auto& [certificate, key, error] :
       {std::tuple(sound.certificate, old.key, "does not belong"),
        std::tuple(old.certificate, old.key, "expired"),
        std::tuple(directory / "none.pem", sound.key, "none.pem")}) {
    Daemon daemon(directory,
                  {"--tls-certificate", certificate, "--tls-key", key});
    EXPECT_EQ(daemon.Wait(), 69);
    EXPECT_THAT(daemon.log(), HasSubstr(error));
    EXPECT_THAT(daemon.log(), HasSubstr(certificate));
  }
  std::filesystem::permissions(sound.key, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  Daemon daemon(directory, {"--tls-certificate", sound.certificate, "--tls-key",
                            sound.key});
  EXPECT_EQ(daemon.Wait(), 69);
  EXPECT_THAT(daemon.log(), HasSubstr("chmod 600 " + sound.key));
  EXPECT_FALSE(std::filesystem::exists(directory / "state"));
}

TEST(ServerTest, WarnsOnceWhenOtherMachinesMayCallFreely) {
  TempDir directory;
  const tls::TestAuthority authority;
  const tls::TlsFiles own = authority.Server("localhost");
  const std::vector<std::string> tls = {"--tls-certificate", own.certificate,
                                        "--tls-key", own.key};
  const auto log_of = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--listen", "0.0.0.0"});
    Daemon daemon(directory, more);
    daemon.AwaitServing();
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    return daemon.log();
  };
  EXPECT_THAT(log_of({}), HasSubstr("sent in the clear"));
  EXPECT_THAT(log_of({"--auth", "none"}),
              HasSubstr("without TLS and authentication"));
  EXPECT_THAT(log_of(tls), Not(HasSubstr("remedy=\"set tls-")));
  std::vector<std::string> open = tls;
  open.insert(open.end(), {"--auth", "none"});
  EXPECT_THAT(log_of(open), HasSubstr("any client that reaches the server"));
  std::vector<std::string> both = tls;
  both.insert(both.end(), {"--tls-client-ca", authority.ca()});
  EXPECT_THAT(log_of(both), Not(HasSubstr("remedy=\"set tls-")));
}

TEST(ServerTest, DamagedDatabaseIsRefusedAndNotTouched) {
  TempDir directory;
  std::filesystem::create_directory(directory / "state");
  const std::string path = directory / "state/gpupool.db";
  const std::string garbage(8192, 'x');
  std::ofstream(path) << garbage;
  Daemon daemon(directory, {});
  EXPECT_EQ(daemon.Wait(), 69);
  EXPECT_THAT(daemon.log(), HasSubstr("backup"));
  EXPECT_EQ(ReadFile(path), garbage);
}

}  // namespace
}  // namespace gpupool::server
