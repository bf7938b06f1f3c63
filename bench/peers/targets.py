"""What is asked of Ballast. A target is a function of a Result (measuring.py) that gives (text, reached, met)."""


def faster_than(factor, *names):
    """Than each of these peers, or than the best where none is named. Those that were not measured ask for nothing."""
    def target(result):
        rates = {n: result.rate(n) for n in (names or result.peers()) if n in result.peers()}
        whom = " and ".join(names) if names else "the best peer"
        if not rates:
            return f"at least {factor:g} x {whom}", "not measured", None
        best = max(rates, key=rates.get)
        ratio = result.rate() / rates[best]
        return f"at least {factor:g} x {whom}", f"{ratio:.2f} x {best}", ratio >= factor
    return target


def share_of_limit(least):
    def target(result):
        share = result.share()
        if share is None:
            return f"at least {least:.0%} of the limit", "no limit measured", None
        return f"at least {least:.0%} of the limit", f"{share:.0%}", share >= least
    return target


def rate_of(least, unit):
    def target(result):
        return f"at least {least:g} {unit}", f"{result.rate():.1f} {unit}", result.rate() >= least
    return target


def time_of(most, name):
    """At most so many times the time of one other."""
    def target(result):
        ratio = result.rate(name) / result.rate()
        return f"at most {most:g} x the time of {name}", f"{ratio:.2f} x", ratio <= most
    return target


def all_of(*targets):
    def target(result):
        texts, reached, met = zip(*(each(result) for each in targets))
        known = [m for m in met if m is not None]
        return " and ".join(texts), "; ".join(reached), all(known) if known else None
    return target


def any_of(*targets):
    def target(result):
        texts, reached, met = zip(*(each(result) for each in targets))
        known = [m for m in met if m is not None]
        return " or ".join(texts), "; ".join(reached), any(known) if known else None
    return target
