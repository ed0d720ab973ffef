# Counts the tests in what their runners printed: cargo's, libtest-mimic's and Node's.
# -v status=N: the exit status of the runner that failed last, or 0.

# `test NAME ... ignored, REASON`; a test that found out while running gives its reason by itself.
/^test .* \.\.\. +ignored/ {
    name = $0
    sub(/^test +/, "", name)
    sub(/ +\.\.\. +ignored.*/, "", name)
    reason = $0
    if (!sub(/.*\.\.\. +ignored, /, "", reason)) reason = ""
    ignored[++ignored_count] = name
    if (reason != "") reasons[name] = reason
}

/^not run: / {
    line = $0
    sub(/^not run: /, "", line)
    at = index(line, ": ")
    if (at > 0) reasons[substr(line, 1, at - 1)] = substr(line, at + 2)
}

# A reason that several tests share.
/^not run [^:]*: / { shared[$0] }

/^test result: / {
    for (field = 2; field <= NF; field++) {
        if ($field == "passed;") passed += $(field - 1)
        if ($field == "failed;") failed += $(field - 1)
        if ($field == "ignored;") skipped += $(field - 1)
    }
}

# A test that the machine disturbed (`machine` of crates/peers).
/run again: / { again++ }

# `test NAME ... FAILED`, and later what it printed, with the first line of the panic that ended it.
/^test .* \.\.\. +FAILED/ {
    name = $0
    sub(/^test +/, "", name)
    sub(/ +\.\.\. +FAILED.*/, "", name)
    if (!(name in named)) broken[++broken_count] = name
    named[name]
}
/^---- .* ----$/ {
    of = $0
    sub(/^---- /, "", of)
    # libtest-mimic gives what went wrong without more ado.
    panicked = !sub(/ stdout ----$/, "", of) && sub(/ ----$/, "", of)
    place = ""
    # What a test prints may stand between its name and FAILED.
    if (!(of in named)) broken[++broken_count] = of
    named[of]
    next
}
/^(failures:|test result: )/ { of = "" }
# What a program printed follows its error's line.
of != "" && of in continues && $0 != "" { panics[of] = panics[of] " " $0; delete continues[of] }
of != "" && panicked && $0 != "" && !(of in panics) {
    panics[of] = place $0
    if ($0 ~ /:$/) continues[of]
}
of != "" && / panicked at .*:$/ {
    place = $0
    sub(/.* panicked at /, "", place)
    place = place " "
    panicked = 1
}
/^ *✖ .* \([0-9.]+ms\)$/ {
    name = $0
    sub(/^ *✖ /, "", name)
    sub(/ \([0-9.]+ms\)$/, "", name)
    if (!(name in named)) broken[++broken_count] = name
    named[name]
}

# Node's closing lines: `# pass 3` as TAP, `ℹ pass 3` for people.
/^(#|ℹ) pass [0-9]+$/ { passed += $3 }
/^(#|ℹ) fail [0-9]+$/ { failed += $3 }
/^(#|ℹ) skipped [0-9]+$/ { skipped += $3 }
/^ *(ok [0-9]+ - |﹣ ).*# / {
    line = $0
    sub(/^ *(ok [0-9]+ - |﹣ )/, "", line)
    sub(/ (\([0-9.]+ms\) )?# (SKIP )?(not run: )?/, ": ", line)
    shared["not run: " line]
}

END {
    for (i = 1; i <= ignored_count; i++) {
        name = ignored[i]
        if (name in reasons) print "not run: " name ": " reasons[name]
        else unexplained = unexplained "\nnot run: " name
    }
    for (line in shared) print line
    if (unexplained != "") print substr(unexplained, 2)
    for (i = 1; i <= broken_count; i++) {
        name = broken[i]
        print "failed: " name (name in panics ? ": " panics[name] : "")
    }
    if (again) printf "%d times a test was run again, as the machine disturbed it: see `run again:` above\n", again
    if (status && !failed) print "a runner ended before its tests did: see its error above"
    printf "wansan: %d passed, %d failed, %d skipped\n", passed, failed, skipped
}
