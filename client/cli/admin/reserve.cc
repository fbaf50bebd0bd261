// gpupool reserve: devices that are kept for one tenant's jobs in a window of
// time.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/time_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

struct CreateOptions {
  std::string tenant, name, kind, from = "now", span, request_id;
  uint32_t count = 0;
  std::vector<std::string> devices;
};

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime(absl::RFC3339_sec,
                          absl::FromUnixSeconds(time.seconds()),
                          absl::LocalTimeZone());
}

std::string StateText(const v1::Reservation& reservation) {
  return absl::AsciiStrToLower(absl::StripPrefix(
      v1::ReservationState_Name(reservation.state()), "RESERVATION_"));
}

void PrintOne(const Context& context, const v1::Reservation& reservation) {
  *context.out().stream << "reservation " << reservation.id() << " ("
                        << reservation.name() << ") is "
                        << StateText(reservation) << ": "
                        << absl::StrJoin(reservation.devices(), ", ") << " for "
                        << reservation.tenant() << " from "
                        << TimeText(reservation.start_time()) << " until "
                        << TimeText(reservation.end_time()) << "\n";
}

absl::StatusOr<v1::CreateReservationRequest> ReservationRequestOf(
    const CreateOptions& options) {
  v1::CreateReservationRequest request;
  request.set_request_id(options.request_id.empty() ? NewRequestId()
                                                    : options.request_id);
  request.set_name(options.name);
  request.set_tenant(options.tenant);
  request.set_device_count(options.count);
  for (const std::string& device : options.devices) {
    request.add_devices(device);
  }
  request.set_device_kind(options.kind);
  const auto start = ParseComingTime("--from", options.from, absl::Now());
  if (!start.ok()) return start.status();
  if (*start) {
    const int64_t nanos = absl::ToUnixNanos(**start);
    const int64_t seconds = absl::ToUnixSeconds(**start);
    request.mutable_start_time()->set_seconds(seconds);
    request.mutable_start_time()->set_nanos(
        static_cast<int32_t>(nanos - seconds * 1'000'000'000));
  }
  const auto span = ParseSpan(options.span);
  if (!span.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--for: ", span.status().message()));
  }
  absl::Duration rest = *span;
  const int64_t seconds = absl::IDivDuration(rest, absl::Seconds(1), &rest);
  request.mutable_duration()->set_seconds(seconds);
  request.mutable_duration()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return request;
}

int Create(Context& context, const CreateOptions& options) {
  const auto request = ReservationRequestOf(options);
  if (!request.ok()) return context.Fail(request.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto made = (*client)->CreateReservation(*request);
  if (absl::IsUnavailable(made.status())) {
    context.Say(absl::StrCat(
        "it is not known whether the reservation was made; repeat safely with "
        "--request-id ",
        request->request_id()));
  }
  if (!made.ok()) return context.Fail(made.status());
  context.Print(*made, [&] { PrintOne(context, *made); });
  return kOk;
}

int List(Context& context, bool all) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ListReservationsRequest request;
  request.set_all(all);
  const auto list = (*client)->ListReservations(request);
  if (!list.ok()) return context.Fail(list.status());
  context.Print(*list, [&] {
    Table table({{"ID", Table::kRight},
                 {"NAME"},
                 {"TENANT"},
                 {"STATE"},
                 {"FROM"},
                 {"UNTIL"},
                 {"DEVICES"}});
    for (const v1::Reservation& one : list->reservations()) {
      table.AddRow({absl::StrCat(one.id()), one.name(), one.tenant(),
                    StateText(one), TimeText(one.start_time()),
                    TimeText(one.end_time()),
                    absl::StrJoin(one.devices(), ",")});
    }
    table.Print(context.out(), context.headers());
  });
  return kOk;
}

int Cancel(Context& context, const std::string& which) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::CancelReservationRequest request;
  uint64_t id = 0;
  if (absl::SimpleAtoi(which, &id) && id > 0) {
    request.set_id(id);
  } else {
    request.set_name(which);
  }
  const auto cancelled = (*client)->CancelReservation(request);
  if (!cancelled.ok()) return context.Fail(cancelled.status());
  context.Print(*cancelled, [&] { PrintOne(context, *cancelled); });
  return kOk;
}

void AddCreate(CLI::App& reserve, Invocation& invocation) {
  auto options = std::make_shared<CreateOptions>();
  CLI::App* verb = AddVerb(
      reserve, "create",
      "Reserve devices for a tenant's jobs. When the window begins, jobs of "
      "other tenants there checkpoint and resume elsewhere or later.",
      "  gpupool reserve create --tenant lab --devices 2 --from +2h --for 4h\n"
      "  gpupool reserve create --tenant lab --device cuda:3 --for 1d \\\n"
      "      --from 2026-11-24T08:00:00Z --name demo");
  verb->add_option("--tenant", options->tenant,
                   "The tenant whose jobs may start there, including its parts")
      ->required();
  verb->add_option("--devices", options->count,
                   "Number of devices, including those that --device names")
      ->type_name("COUNT");
  verb->add_option("--device", options->devices,
                   "A particular device; may be repeated")
      ->type_name("NAME");
  verb->add_option(
          "--kind", options->kind,
          "Kind of the devices that are not named (default: any one kind)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb->add_option("--from", options->from,
                   "Begin: now, +2h, +1d, 2026-11-24 or 2026-11-24T08:00:00Z "
                   "(default: now)")
      ->type_name("TIME");
  verb->add_option("--for", options->span, "Length: 30m, 4h, 2d")
      ->type_name("DURATION")
      ->required();
  verb->add_option("--name", options->name,
                   "Name of the reservation (default: reservation-ID)");
  verb->add_option("--request-id", options->request_id,
                   "Makes the request repeatable: the same id returns the same "
                   "reservation (default: random)")
      ->type_name("ID");
  invocation.On(verb, [options](Context& c) { return Create(c, *options); });
}

}  // namespace

void AddReserve(CLI::App& app, Invocation& invocation) {
  CLI::App* reserve = AddVerb(
      app, "reserve", "Keep devices for one tenant's jobs in a window of time.",
      "  gpupool reserve list");
  reserve->require_subcommand(1);
  AddCreate(*reserve, invocation);
  auto all = std::make_shared<bool>(false);
  CLI::App* list =
      AddVerb(*reserve, "list", "Show the reservations that have not ended.",
              "  gpupool reserve list --all -o json");
  list->add_flag("--all", *all,
                 "Also reservations that ended or were cancelled");
  invocation.On(list, [all](Context& c) { return List(c, *all); });
  auto which = std::make_shared<std::string>();
  CLI::App* cancel =
      AddVerb(*reserve, "cancel",
              "End a reservation and free its devices for all tenants.",
              "  gpupool reserve cancel demo");
  cancel->add_option("RESERVATION", *which, "Its id, or its name")->required();
  invocation.On(cancel, [which](Context& c) { return Cancel(c, *which); });
}

}  // namespace gpupool::client
