package ownershiptest

import "testing"

// Every public report leads to a test that exists, or says where it is tested.
func TestReportsLeadToTests(t *testing.T) {
	exists := make(map[string]bool)
	for _, c := range cases() {
		if exists[c.name] {
			t.Errorf("two tests are called %s", c.name)
		}
		exists[c.name] = true
	}
	for _, r := range reports {
		if r.behaviour == "" || len(r.tests) == 0 && r.elsewhere == "" {
			t.Errorf("%s leads nowhere", r.source)
		}
		for _, name := range r.tests {
			if !exists[name] {
				t.Errorf("%s leads to %s, which is no test", r.source, name)
			}
		}
	}
}
