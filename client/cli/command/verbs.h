// The verbs of `gpupool`, one source file each. Each function adds its verb,
// with options and help, to the command line.
#pragma once

namespace CLI {
class App;
}

namespace gpupool::client {

class Invocation;

void AddSubmit(CLI::App& app, Invocation& invocation);
void AddRun(CLI::App& app, Invocation& invocation);
void AddJobs(CLI::App& app, Invocation& invocation);
void AddGet(CLI::App& app, Invocation& invocation);
void AddWatch(CLI::App& app, Invocation& invocation);
void AddWait(CLI::App& app, Invocation& invocation);
void AddLogs(CLI::App& app, Invocation& invocation);
void AddCancel(CLI::App& app, Invocation& invocation);
void AddHold(CLI::App& app, Invocation& invocation);
void AddRelease(CLI::App& app, Invocation& invocation);
void AddRequeue(CLI::App& app, Invocation& invocation);
void AddWhy(CLI::App& app, Invocation& invocation);
void AddCompare(CLI::App& app, Invocation& invocation);
void AddProfile(CLI::App& app, Invocation& invocation);
void AddPlan(CLI::App& app, Invocation& invocation);
void AddDatasets(CLI::App& app, Invocation& invocation);
void AddDatasetsTokenizer(CLI::App& datasets, Invocation& invocation);
void AddModels(CLI::App& app, Invocation& invocation);
void AddModelsCheck(CLI::App& models, Invocation& invocation);
void AddModelsFiles(CLI::App& models, Invocation& invocation);
void AddModelsInfer(CLI::App& models, Invocation& invocation);
void AddModelsNamed(CLI::App& models, Invocation& invocation);
void AddModelsProfile(CLI::App& models, Invocation& invocation);
void AddModelsRollback(CLI::App& models, Invocation& invocation);
void AddQuota(CLI::App& app, Invocation& invocation);
void AddQueues(CLI::App& app, Invocation& invocation);
void AddReserve(CLI::App& app, Invocation& invocation);
void AddContexts(CLI::App& app, Invocation& invocation);
void AddDevices(CLI::App& app, Invocation& invocation);
void AddDevicesMemory(CLI::App& devices, Invocation& invocation);
void AddDevicesDrain(CLI::App& devices, Invocation& invocation);
void AddDevicesTopology(CLI::App& devices, Invocation& invocation);
void AddDevicesBench(CLI::App& devices, Invocation& invocation);
void AddAdmin(CLI::App& app, Invocation& invocation);
void AddSim(CLI::App& app, Invocation& invocation);
void AddSimFill(CLI::App& sim, Invocation& invocation);
void AddDoctor(CLI::App& app, Invocation& invocation);
void AddTls(CLI::App& app, Invocation& invocation);
void AddTokens(CLI::App& app, Invocation& invocation);
void AddUsage(CLI::App& app, Invocation& invocation);
void AddVersion(CLI::App& app, Invocation& invocation);
void AddCompletion(CLI::App& app, Invocation& invocation);

}  // namespace gpupool::client
