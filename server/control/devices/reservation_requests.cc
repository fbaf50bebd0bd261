#include "server/control/devices/reservation_requests.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/reservation.pb.h"
#include "scheduler/place/reservation_policy.h"
#include "scheduler/state/device.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_requests.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

using ReservationCallback = Callback<v1::Reservation>;
using Request = v1::CreateReservationRequest;

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

// Returns the end as things stand: earlier if the reservation was cancelled.
absl::Time EndOf(const v1::Reservation& row) {
  return FromTimestamp(row.has_cancel_time() ? row.cancel_time()
                                             : row.end_time());
}

bool HasEnded(const v1::Reservation& row, absl::Time now) {
  return row.has_cancel_time() || EndOf(row) <= now;
}

// Returns the row with its state at `now`, which is not stored.
v1::Reservation WithState(v1::Reservation row, absl::Time now) {
  if (row.has_cancel_time()) {
    row.set_state(v1::RESERVATION_CANCELLED);
  } else if (FromTimestamp(row.end_time()) <= now) {
    row.set_state(v1::RESERVATION_ENDED);
  } else if (FromTimestamp(row.start_time()) <= now) {
    row.set_state(v1::RESERVATION_ACTIVE);
  } else {
    row.set_state(v1::RESERVATION_PENDING);
  }
  return row;
}

void AnswerWith(Transaction& transaction, const v1::Reservation& row,
                const ReservationCallback& callback) {
  transaction.AfterCommit(
      [callback, answer = WithState(row, transaction.now())] {
        callback(answer);
      });
}

absl::Duration DurationOf(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

// Returns the present time, but never one before the scheduler's: a cancelled
// reservation must not come back with a clock that is set back.
absl::Time NowFor(Transaction& transaction) {
  absl::Time now =
      std::max(transaction.now(), transaction.ledger().state.now());
  for (const auto& [id, row] : transaction.ledger().reservations) {
    if (row.has_cancel_time()) now = std::max(now, EndOf(row));
  }
  return now;
}

// Returns whether the request asks for what the reservation already is. The row
// has the chosen devices only, so names, number and kind are compared with
// those.
bool IsTheSame(const v1::Reservation& row, const Request& request) {
  const bool has_name =
      request.name().empty()
          ? row.name() == absl::StrCat("reservation-", row.id())
          : row.name() == request.name();
  const auto is_named = [&](const std::string& device) {
    return absl::c_linear_search(request.devices(), device);
  };
  const auto named = absl::c_count_if(row.devices(), is_named);
  const auto count =
      std::max<int64_t>(request.device_count(), request.devices_size());
  const bool has_kind = absl::c_all_of(row.devices(), [&](const auto& device) {
    return request.device_kind().empty() || is_named(device) ||
           absl::StartsWith(device, absl::StrCat(request.device_kind(), ":"));
  });
  const absl::Time start = FromTimestamp(row.start_time());
  return has_name && has_kind && row.tenant() == request.tenant() &&
         named == request.devices_size() && row.devices_size() == count &&
         FromTimestamp(row.end_time()) ==
             start + DurationOf(request.duration()) &&
         (!request.has_start_time() ||
          FromTimestamp(request.start_time()) == start);
}

// Checks that the start is neither past nor too far ahead.
absl::Status CheckWindow(absl::Time start, absl::Time now) {
  if (start < now) {
    return absl::InvalidArgumentError(absl::StrCat(
        "start_time is ", TimeText(start), ", which has passed: it is ",
        TimeText(now), "; leave it out to begin now"));
  }
  if (start - now > kLongestReservation) {
    return absl::InvalidArgumentError(
        absl::StrCat("start_time is ", TimeText(start), ", which is more than ",
                     absl::ToInt64Hours(kLongestReservation) / 24,
                     " days ahead; choose an earlier one"));
  }
  return absl::OkStatus();
}

// Checks that the name is free, and that there is room for one more.
absl::Status CheckFree(const Ledger& ledger, const Request& request,
                       absl::Time now) {
  size_t others = 0;
  for (const auto& [id, row] : ledger.reservations) {
    if (HasEnded(row, now)) continue;
    ++others;
    if (request.name().empty() || row.name() != request.name()) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "reservation ", id, " is called \"", row.name(),
        "\" and has not ended; choose another name, or cancel that one"));
  }
  if (others < scheduler::kMostReservations) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(others,
                   " reservations have not ended, which is the limit; cancel "
                   "one, or wait until one ends"));
}

absl::StatusOr<std::vector<scheduler::DeviceId>> FindDevices(
    const scheduler::State& state, const Request& request) {
  std::vector<scheduler::DeviceId> devices;
  for (const std::string& name : request.devices()) {
    const scheduler::Device* device = state.FindDevice(name);
    if (device == nullptr) return NoSuchDevice(name);
    devices.push_back(device->id);
  }
  return devices;
}

// Drops the oldest of the reservations that are over.
void DropOldest(Transaction& transaction, absl::Time now) {
  auto& rows = transaction.ledger().reservations;
  std::vector<std::pair<absl::Time, uint64_t>> ended;
  for (const auto& [id, row] : rows) {
    if (HasEnded(row, now)) ended.emplace_back(EndOf(row), id);
  }
  if (ended.size() <= kKeptReservations) return;
  std::sort(ended.begin(), ended.end());
  ended.resize(ended.size() - kKeptReservations);
  for (const auto& [end, id] : ended) {
    rows.erase(id);
    transaction.batch().delete_reservations.push_back(id);
  }
}

// Returns a new row after all checks, with devices chosen by the scheduler's
// policy.
absl::StatusOr<v1::Reservation> NewReservation(const ControlContext& context,
                                               Transaction& transaction,
                                               const Request& request) {
  Ledger& ledger = transaction.ledger();
  const absl::Time now = NowFor(transaction);
  RETURN_IF_ERROR(context.store->CheckRoom());
  const absl::Time start =
      request.has_start_time() ? FromTimestamp(request.start_time()) : now;
  RETURN_IF_ERROR(CheckWindow(start, now));
  RETURN_IF_ERROR(CheckFree(ledger, request, now));
  scheduler::ReservationNeed need{
      .tenant = request.tenant(),
      .devices = request.device_count(),
      .device_kind = request.device_kind(),
      .start = start,
      .end = start + DurationOf(request.duration())};
  ASSIGN_OR_RETURN(need.named, FindDevices(ledger.state, request));
  ASSIGN_OR_RETURN(const auto devices, ChooseReserved(ledger.state, need));
  v1::Reservation row;
  row.set_id(transaction.store().AllocateId(IdKind::kReservation));
  row.set_name(request.name().empty() ? absl::StrCat("reservation-", row.id())
                                      : request.name());
  row.set_tenant(request.tenant());
  for (scheduler::DeviceId id : devices) {
    row.add_devices(ledger.state.devices().at(id).name);
  }
  *row.mutable_start_time() = ToTimestamp(start);
  *row.mutable_end_time() = ToTimestamp(need.end);
  *row.mutable_create_time() = ToTimestamp(transaction.now());
  row.set_request_id(request.request_id());
  return row;
}

void Create(const ControlContext& context, Transaction& transaction,
            const Request& request, const ReservationCallback& callback) {
  Ledger& ledger = transaction.ledger();
  for (const auto& [id, row] : ledger.reservations) {
    if (row.request_id() != request.request_id()) continue;
    // It may be new in this very transaction, so the answer waits for the
    // commit.
    if (IsTheSame(row, request)) return AnswerWith(transaction, row, callback);
    return callback(absl::AlreadyExistsError(absl::StrCat(
        "request_id \"", request.request_id(), "\" was used for reservation ",
        id, " with other contents; use a new request_id for a new one")));
  }
  auto made = NewReservation(context, transaction, request);
  if (!made.ok()) return callback(made.status());
  v1::Reservation& row = ledger.reservations[made->id()];
  row = *std::move(made);
  transaction.batch().upsert_reservations.push_back(row);
  DropOldest(transaction, transaction.now());
  transaction.Apply(
      scheduler::ReservationMade{ToSchedulerReservation(row, ledger.state)});
  AnswerWith(transaction, row, callback);
}

// Returns null when there is none.
v1::Reservation* Find(Ledger& ledger,
                      const v1::CancelReservationRequest& wanted,
                      absl::Time now) {
  for (auto& [id, row] : ledger.reservations) {
    const bool is_it = wanted.id() > 0
                           ? id == wanted.id()
                           : row.name() == wanted.name() && !HasEnded(row, now);
    if (is_it) return &row;
  }
  return nullptr;
}

void Cancel(Transaction& transaction,
            const v1::CancelReservationRequest& request,
            const ReservationCallback& callback) {
  const absl::Time now = transaction.now();
  v1::Reservation* row = Find(transaction.ledger(), request, now);
  if (row == nullptr) {
    return callback(absl::NotFoundError(absl::StrCat(
        "there is no reservation ",
        request.id() > 0
            ? absl::StrCat(request.id())
            : absl::StrCat("\"", request.name(), "\" that has not ended"),
        "; see `gpupool reserve list`")));
  }
  if (!HasEnded(*row, now)) {
    *row->mutable_cancel_time() = ToTimestamp(now);
    transaction.batch().upsert_reservations.push_back(*row);
    transaction.Apply(
        scheduler::ReservationCancelled{scheduler::ReservationId(row->id())});
  }
  AnswerWith(transaction, *row, callback);
}

}  // namespace

void CreateReservation(const ControlContext& context, const Request& request,
                       ReservationCallback callback) {
  Enqueue<v1::Reservation>(
      context, callback,
      [&context, request, callback](Transaction& transaction) {
        Create(context, transaction, request, callback);
      });
}

void CancelReservation(const ControlContext& context,
                       const v1::CancelReservationRequest& request,
                       ReservationCallback callback) {
  Enqueue<v1::Reservation>(context, callback,
                           [request, callback](Transaction& transaction) {
                             Cancel(transaction, request, callback);
                           });
}

absl::StatusOr<v1::ListReservationsResponse> ListReservations(
    const Store& store, const v1::ListReservationsRequest& request,
    absl::Time now) {
  ASSIGN_OR_RETURN(auto rows, store.LoadReservations());
  absl::c_stable_sort(rows, [](const auto& a, const auto& b) {
    return FromTimestamp(a.start_time()) < FromTimestamp(b.start_time());
  });
  v1::ListReservationsResponse response;
  for (v1::Reservation& row : rows) {
    if (!request.all() && HasEnded(row, now)) continue;
    *response.add_reservations() = WithState(std::move(row), now);
  }
  return response;
}

scheduler::TenantReservation ToSchedulerReservation(
    const v1::Reservation& row, const scheduler::State& state) {
  scheduler::TenantReservation reservation{
      .id = scheduler::ReservationId(row.id()),
      .name = row.name(),
      .tenant = row.tenant(),
      .start = FromTimestamp(row.start_time()),
      .end = FromTimestamp(row.end_time())};
  for (const std::string& name : row.devices()) {
    const scheduler::Device* device = state.FindDevice(name);
    if (device != nullptr) reservation.devices.push_back(device->id);
  }
  absl::c_sort(reservation.devices);
  return reservation;
}

}  // namespace gpupool::server
