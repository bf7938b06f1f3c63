"""What others compute while we measure: the machine's busy time, less that of our own processes."""
import os, resource, time

MOST_OF_A_CORE = 0.25  # others may use this much of one core in a round that counts


class Disturbed(Exception):
    """Others used the machine in too many rounds."""


def busy_seconds():
    """Of all processors, with what the hypervisor gave to other machines."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def process_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, of all threads


def own_seconds(pids):
    """Of this process, of those that it started and that have ended, and of those that it keeps."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(process_seconds, pids))


class Watch:
    """From now on; `pids` are the processes that are kept from here to there."""

    def __init__(self, pids):
        self.pids = list(pids)
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds(self.pids)

    def cores_of_others(self):
        busy, own = busy_seconds() - self.busy, own_seconds(self.pids) - self.own
        return max(0.0, busy - own) / max(time.monotonic() - self.start, 1e-3)
